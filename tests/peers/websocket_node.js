// A peer on the npm package ws, which NODE_PATH must contain: `node websocket_node.js client URL` sends messages to a
// server that echoes; `node websocket_node.js server` prints its port, echoes, and ends with the first connection. Both
// print the events of the connection, one a line.

const { WebSocket, WebSocketServer } = require("ws");

function report(ws, onMessage) {
  ws.on("pong", (data) => console.log(`pong ${data}`));
  ws.on("message", (data, isBinary) => {
    console.log(`message ${isBinary ? "binary" : "text"} ${data.length}`);
    onMessage(data, isBinary);
  });
  ws.on("close", (code, reason) => console.log(`close ${code} ${reason}`));
  ws.on("error", (error) => console.log(`error ${error.message}`));
}

const [mode, url] = process.argv.slice(2);
if (mode === "client") {
  const ws = new WebSocket(url, ["x", "echo"], { perMessageDeflate: { threshold: 0 } });
  let count = 0;
  report(ws, () => { if (++count === 2) ws.close(4001, "bye"); });
  ws.on("open", () => {
    console.log(`open ${ws.protocol} ${ws.extensions}`);
    ws.ping("p");
    ws.send("h\u00e9llo");
    ws.send(Buffer.alloc(300000, 7));
  });
} else {
  const options = { host: "127.0.0.1", port: 0, perMessageDeflate: { threshold: 0 }, handleProtocols: () => "echo" };
  const server = new WebSocketServer(options);
  server.on("listening", () => console.log(server.address().port));
  server.on("connection", (ws) => {
    report(ws, (data, isBinary) => ws.send(data, { binary: isBinary }));
    ws.on("close", () => server.close());
  });
}
