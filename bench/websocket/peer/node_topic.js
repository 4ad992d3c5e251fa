// A server on the npm package ws that sends a message of 1 KiB to all connections for each message that arrives: `node
// node_topic.js PORT`. NODE_PATH must lead to the package.

const { WebSocketServer, WebSocket } = require("ws");

const message = Buffer.from("0123456789abcdef".repeat(64));
const server = new WebSocketServer({
  host: "127.0.0.1", port: Number(process.argv[2]), perMessageDeflate: false, backlog: 1024,
});
server.on("listening", () => console.log(`listening on 127.0.0.1:${server.address().port}`));
server.on("connection", (ws) => {
  ws.on("message", () => {
    for (const client of server.clients) {
      if (client.readyState === WebSocket.OPEN) client.send(message, { binary: true });
    }
  });
  ws.on("error", () => ws.terminate());
});
