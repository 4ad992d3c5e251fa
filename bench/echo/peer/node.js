// An echo server on Node's net: `node node.js PORT`.

const net = require("node:net");

const server = net.createServer({ noDelay: true }, (client) => {
  client.on("data", (data) => client.write(data));
  client.on("error", () => client.destroy());
});
server.listen({ host: "127.0.0.1", port: Number(process.argv[2]), backlog: 1024 }, () => {
  console.log(`listening on 127.0.0.1:${server.address().port}`);
});
