// A server on Node's http for tests/long/http_client_peers.sh: `node node_server.js PORT`.
const http = require("http");
const zlib = require("zlib");

const routes = {
  "/up"(request, response) {
    let count = 0;
    request.on("data", (data) => (count += data.length));
    request.on("end", () => response.end(String(count)));
  },
  "/echo": (request, response) => request.pipe(response),
  "/trailers"(request, response) {
    response.writeHead(200, { Trailer: "X-Sum" });
    response.write("abc");
    response.addTrailers({ "X-Sum": "3" });
    response.end();
  },
  "/early"(request, response) {
    response.writeEarlyHints({ link: "</x>" });
    response.end("hinted");
  },
  "/refuse"(request, response) {
    response.writeHead(413, { connection: "close" });
    response.end("no");
  },
  "/coded"(request, response) {
    const coding = request.headers["x-coding"];
    const encode = { br: zlib.brotliCompressSync, gzip: zlib.gzipSync, deflate: zlib.deflateSync }[coding];
    response.writeHead(200, { "content-encoding": coding });
    response.end(encode("text ".repeat(10000)));
  },
  "/die": (request) => request.socket.destroy(),
};

http
  .createServer((request, response) => {
    const route = routes[request.url];
    if (route) return route(request, response);
    response.end(request.method + " " + request.url);
  })
  .on("checkContinue", (request, response) => {
    response.writeContinue();
    routes["/up"](request, response);
  })
  .on("upgrade", (request, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
    socket.on("data", (data) => socket.write(data));
  })
  .listen(Number(process.argv[2]), "127.0.0.1");
