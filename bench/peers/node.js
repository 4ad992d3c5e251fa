// An HTTP server on Node's http: node node.js PORT
"use strict";

const http = require("node:http");

const large = "x".repeat(100 * 1024);
const piece = "x".repeat(127) + "\n";
const text = "text/plain; charset=utf-8";

function respond(response, type, body) {
  response.writeHead(200, { "Content-Type": type, "Content-Length": Buffer.byteLength(body) });
  response.end(body);
}

function echo(request, response) {
  const pieces = [];
  request.on("data", (data) => pieces.push(data));
  request.on("end", () => respond(response, "application/octet-stream", Buffer.concat(pieces)));
}

function stream(response) {
  response.writeHead(200, { "Content-Type": text });
  for (let i = 0; i < 8; i++) response.write(piece);
  response.end();
}

const server = http.createServer((request, response) => {
  switch (request.url) {
    case "/": return respond(response, text, "Hello, World!\n");
    case "/echo": return echo(request, response);
    case "/large": return respond(response, text, large);
    case "/stream": return stream(response);
  }
  const [, user, post] = /^\/users\/([^/]+)\/posts\/([^/]+)$/.exec(request.url);
  respond(response, "application/json", JSON.stringify({ user, post }));
});
server.keepAliveTimeout = 3600000;
server.listen(Number(process.argv[2]), "127.0.0.1", 4096);
