"""The servers of the garden: starts them on ports that the system chooses, and ends them. `start(scratch)` raises
Missing if a program is not installed, with a text that states what to install."""

import os
import shutil
import socket
import subprocess
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(FOLDER, "../../.."))
LIO = os.path.abspath(os.environ.get("LIO_BIN", "target/release/lio"))


class Missing(Exception):
    pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def need(program, package):
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if not path:
        raise Missing("%s is missing: apt-get install %s" % (program, package))
    return path


def first_line(*command):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return r.stdout.split("\n")[0]


def wait_for(port, process):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError("%s ended with %d" % (process.args[0], process.returncode))
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("%s does not listen" % process.args[0])


class Garden:
    """Processes and their files. Use it as a context manager."""

    def __init__(self, scratch):
        self.scratch, self.processes, self.versions = scratch, [], {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _spawn(self, name, command, **options):
        log = open(os.path.join(self.scratch, name + ".log"), "ab")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, cwd=ROOT, **options)
        log.close()
        self.processes.append(process)
        return process

    def printing(self, name, command):
        """Starts a program of the garden, which prints its port."""
        process = self._spawn(name, command, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "LUA_PATH": "%s/?.lua;%s/lualib/?.lua;;" % (ROOT, ROOT)})
        for line in process.stdout:
            word = line.replace("/", ":").split(":") if "serving" in line else line.split()
            digits = [w for w in word if w.strip().isdigit()]
            if digits:
                return int(digits[-1])
        raise RuntimeError("%s prints no port, see %s.log" % (name, name))

    def listening(self, name, command, port, **options):
        """Starts a program that was told its port."""
        log = open(os.path.join(self.scratch, name + ".out"), "ab")
        process = self._spawn(name, command, stdout=log, **options)
        log.close()
        wait_for(port, process)
        return port

    def file(self, name, text):
        path = os.path.join(self.scratch, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def folder(self, name):
        path = os.path.join(self.scratch, name)
        os.makedirs(path, exist_ok=True)
        return path

    # Servers with a handler.

    def lio(self, mode="read"):
        self.versions["lio"] = first_line(LIO, "--version")
        return self.printing("lio", [LIO, os.path.join(FOLDER, "lio_server.lua"), mode])

    def lio_proxy(self, origin):
        return self.printing("lio_proxy", [LIO, "examples/reverse_proxy.lua", "0", "http://127.0.0.1:%d" % origin, "5"])

    def h11(self):
        try:
            import h11
        except ImportError:
            raise Missing("h11 is missing: pip install h11, into the environment of this Python") from None
        self.versions["h11"] = "h11 " + h11.__version__
        return self.printing("h11", [sys.executable, "-B", os.path.join(FOLDER, "h11_server.py")])

    def node(self):
        node = need("node", "nodejs")
        self.versions["node"] = "Node " + first_line(node, "--version")
        return self.printing("node", [node, os.path.join(FOLDER, "node_server.js")])

    def hyper(self):
        cargo = need("cargo", "cargo")
        target = os.path.join(os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))), "garden")
        r = subprocess.run([cargo, "build", "--quiet", "--release", "--locked", "--manifest-path",
            os.path.join(FOLDER, "hyper/Cargo.toml"), "--target-dir", target], capture_output=True, text=True)
        if r.returncode != 0:
            raise Missing("hyper cannot be built: " + r.stderr.strip()[-300:])
        with open(os.path.join(FOLDER, "hyper/Cargo.lock")) as lock:
            version = lock.read().split('name = "hyper"\nversion = "')[1].split('"')[0]
        self.versions["hyper"] = "hyper " + version
        return self.printing("hyper", [os.path.join(target, "release/garden-hyper")])

    # Reverse proxies in front of the port `backend`. They keep connections to it open.

    def nginx(self, backend):
        program, port, folder = need("nginx", "nginx-light"), free_port(), self.folder("nginx%d" % backend)
        version = subprocess.run([program, "-v"], capture_output=True, text=True).stderr.split("\n")[0]
        self.versions["nginx"] = version.replace("nginx version: ", "")
        temporary = "".join("%s_temp_path %s/%s; " % (name, folder, name)
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        conf = self.file("nginx%d.conf" % backend, f"""
worker_processes 1; pid {folder}/pid; error_log {folder}/error; daemon off;
events {{ worker_connections 200; }}
http {{
  access_log off; client_max_body_size 0; {temporary}
  upstream back {{ server 127.0.0.1:{backend}; keepalive 4; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_next_upstream off; proxy_buffering off;
    }}
  }}
}}
""")
        return self.listening("nginx%d" % backend, [program, "-e", folder + "/early", "-c", conf], port)

    def haproxy(self, backend):
        program, port = need("haproxy", "haproxy"), free_port()
        self.versions["haproxy"] = first_line(program, "-v").split(" 20")[0]
        conf = self.file("haproxy%d.cfg" % backend, f"""
global
  maxconn 200
  nbthread 1
defaults
  mode http
  timeout client 10s
  timeout server 10s
  timeout connect 5s
  http-reuse always
  retries 0
frontend web
  bind 127.0.0.1:{port}
  default_backend app
backend app
  server app1 127.0.0.1:{backend}
""")
        return self.listening("haproxy%d" % backend, [program, "-db", "-f", conf], port)

    def h2o(self, backend):
        program, port = need("h2o", "h2o"), free_port()
        self.versions["h2o"] = first_line(program, "--version")
        user = "user: root" if os.getuid() == 0 else ""
        conf = self.file("h2o%d.yaml" % backend, f"""
{user}
num-threads: 1
listen:
  host: 127.0.0.1
  port: {port}
hosts:
  default:
    paths:
      "/":
        proxy.reverse.url: "http://127.0.0.1:{backend}/"
        proxy.preserve-host: ON
        proxy.timeout.keepalive: 10000
""")
        return self.listening("h2o%d" % backend, [program, "-c", conf], port)

    def caddy(self, backend):
        program, port = need("caddy", "caddy"), free_port()
        self.versions["caddy"] = "Caddy " + first_line(program, "version")
        conf = self.file("Caddyfile%d" % backend, f"""
{{
  admin off
  auto_https off
}}
http://:{port} {{
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:{backend}
}}
""")
        home = self.folder("caddy%d" % backend)
        environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home}
        return self.listening("caddy%d" % backend, [program, "run", "--config", conf, "--adapter", "caddyfile"], port,
            env=environment)

    def apache2(self, backend):
        program, port = need("apache2", "apache2-bin"), free_port()
        self.versions["apache2"] = first_line(program, "-v").replace("Server version: ", "")
        folder, modules = self.folder("apache%d" % backend), "/usr/lib/apache2/modules"
        load = "\n".join("LoadModule %s_module %s/mod_%s.so" % (name, modules, name)
            for name in ("mpm_event", "authz_core", "proxy", "proxy_http"))
        user = "User www-data\nGroup www-data" if os.getuid() == 0 else ""
        conf = self.file("apache%d.conf" % backend, f"""
ServerRoot {folder}
ServerName x
Listen 127.0.0.1:{port}
PidFile {folder}/pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/error
{load}
{user}
StartServers 1
ServerLimit 1
ThreadsPerChild 64
MaxRequestWorkers 64
KeepAlive On
MaxKeepAliveRequests 0
AllowEncodedSlashes NoDecode
ProxyPreserveHost On
ProxyPass "/" "http://127.0.0.1:{backend}/"
""")
        return self.listening("apache%d" % backend, [program, "-D", "FOREGROUND", "-f", conf], port)


ORIGINS = ("h11", "hyper", "node")
PROXIES = ("nginx", "haproxy", "h2o", "caddy", "apache2")
