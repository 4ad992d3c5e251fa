# An image with the executable `lio`. docs/install.md describes it.
#   docker build -t lio .
#   docker run --rm --init -p 8080:8080 -v "$PWD:/app:ro" lio server.lua
# A server in a container must listen on all interfaces: app:run(8080, { addr = "0.0.0.0" }).

FROM rust:1-slim-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends make \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN make build

FROM debian:bookworm-slim
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /app --shell /usr/sbin/nologin lio
COPY --from=build /src/target/release/lio /usr/local/bin/lio
WORKDIR /app
USER 10001
EXPOSE 8080
ENTRYPOINT ["lio"]
