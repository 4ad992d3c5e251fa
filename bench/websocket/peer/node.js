// A WebSocket echo server on the npm package ws: `node node.js PORT`. NODE_PATH must lead to the package.

const { WebSocketServer } = require("ws");

const server = new WebSocketServer({ host: "127.0.0.1", port: Number(process.argv[2]), perMessageDeflate: false });
server.on("listening", () => console.log(`listening on 127.0.0.1:${server.address().port}`));
server.on("connection", (ws) => {
  ws.on("message", (data, isBinary) => ws.send(data, { binary: isBinary }));
  ws.on("error", () => ws.terminate());
});
