#!/usr/bin/env bash
# Tests lio.http.client with Python's http.server, nginx and Node; tests/peers/http_client_cases.lua sends the requests.
# Needs python3, nginx and node. Takes at most 60 s.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
if ! command -v nginx >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get -qq update </dev/null >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y install nginx-light </dev/null >/dev/null
fi
for tool in python3 nginx node; do
  command -v $tool >/dev/null && continue
  echo "http_client_peers.sh: $tool is missing"
  echo "0 passed, 1 failed"
  exit 1
done

scratch=$(mktemp -d)
chmod 755 "$scratch"
mkdir -p "$scratch/www/dir"
echo hello >"$scratch/www/a b.txt"
echo -n '<p>dir' >"$scratch/www/dir/index.html"
head -c 1020000 /dev/zero | tr '\0' x >"$scratch/www/big.txt"
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
python_port=$(free_port) nginx_port=$(free_port) node_port=$(free_port)
cat >"$scratch/nginx.conf" <<CONF
worker_processes 1; pid $scratch/pid; error_log $scratch/error; daemon off;
events { worker_connections 200; }
http {
  access_log off; gzip on; gzip_types text/plain; keepalive_timeout 1s; keepalive_requests 5; client_max_body_size 1m;
  client_body_temp_path $scratch/1; proxy_temp_path $scratch/2; fastcgi_temp_path $scratch/3;
  uwsgi_temp_path $scratch/4; scgi_temp_path $scratch/5;
  server {
    listen 127.0.0.1:$nginx_port; root $scratch/www;
    location /old { return 301 /dir/; }
    location /up { proxy_pass http://127.0.0.1:$node_port; proxy_http_version 1.1; proxy_request_buffering off; }
  }
}
CONF
python3 -m http.server -b 127.0.0.1 -d "$scratch/www" "$python_port" >/dev/null 2>&1 &
python=$!
nginx -c "$scratch/nginx.conf" &
nginx=$!
node tests/peers/node_server.js "$node_port" &
node=$!
trap 'kill $python $nginx $node 2>/dev/null; wait 2>/dev/null; rm -rf "$scratch"' EXIT
for port in $python_port $nginx_port $node_port; do
  for _ in $(seq 100); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 0.05
  done
done
timeout 60 "$lio" tests/peers/http_client_cases.lua "$python_port" "$nginx_port" "$node_port"
