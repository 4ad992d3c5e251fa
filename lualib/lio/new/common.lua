-- The files that all kinds of projects have. `lio new` replaces `$name$` and `$lua$`.

return {
  [".gitignore"] = [[
*.log
.env
]],

  [".luarc.json"] = [[
{
  "runtime.version": "$lua$",
  "workspace.library": [
    "/usr/local/share/lio/meta",
    "/usr/share/lio/meta"
  ],
  "workspace.checkThirdParty": false
}
]],

  ["Dockerfile"] = [[
# docker build -t $name$ . && docker run --rm -p 8080:8080 $name$
#
# LIO_IMAGE is an image with the executable `lio`. In the source folder of lio, `docker build -t lio .` builds one.
ARG LIO_IMAGE=lio
FROM ${LIO_IMAGE}
WORKDIR /app
COPY . .
# Any user that is not root: the program writes no files.
USER 65532:65532
ENV ADDR=0.0.0.0 PORT=8080
EXPOSE 8080
# SIGTERM stops the program gracefully.
STOPSIGNAL SIGTERM
ENTRYPOINT ["lio", "main.lua"]
]],

  ["$name$.service"] = [[
# Copy the project to /opt/$name$ and this file to /etc/systemd/system, then: systemctl enable --now $name$

[Unit]
Description=$name$
After=network-online.target
Wants=network-online.target

[Service]
# The path of the executable; `command -v lio` prints it.
ExecStart=/usr/local/bin/lio main.lua
WorkingDirectory=/opt/$name$
Environment=ADDR=127.0.0.1 PORT=8080
Restart=on-failure
# A graceful stop takes at most 10 seconds.
TimeoutStopSec=15
LimitNOFILE=65536
DynamicUser=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX

[Install]
WantedBy=multi-user.target
]],
}
