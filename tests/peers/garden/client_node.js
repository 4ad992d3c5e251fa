// Node's client for responses.py: `node client_node.js URL COUNT` requests /case/N and then /next/N for each case, and
// prints the outcomes.
const http = require('http');

const [url, count] = process.argv.slice(2);

const shown = (body) => body.toString('latin1').replace(/[^ -~]|\\/g, (c) => '\\x' + c.charCodeAt(0).toString(16).padStart(2, '0'));

const get = (agent, path) =>
  new Promise((resolve) => {
    const req = http.get(url + path, { agent, timeout: 1000 }, (res) => {
      const pieces = [];
      res.on('data', (piece) => pieces.push(piece));
      res.on('end', () => resolve({ status: res.statusCode, body: Buffer.concat(pieces) }));
      res.on('error', () => resolve(null));
    });
    req.on('upgrade', (res, socket) => { socket.destroy(); resolve(null); });
    req.on('timeout', () => req.destroy());
    req.on('error', () => resolve(null));
  });

(async () => {
  for (let at = 0; at < Number(count); at++) {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const first = await get(agent, '/case/' + at);
    const second = await get(agent, '/next/' + at);
    const text = !first ? 'error' : first.status + (first.body.length ? ` [${shown(first.body)}]` : '');
    console.log(`${at}\t${text}\t${second ? shown(second.body) : 'error'}`);
    agent.destroy();
  }
})();
