// Node's HTTP parser for the garden: responds to each request with what the handler has seen, in the field X-Seen, as
// garden.lua describes. Started by servers.py; prints its port.
const http = require('http');

const hex = (bytes) =>
  bytes.length === 0 ? '-' : bytes.subarray(0, 100).toString('hex') + (bytes.length > 100 ? '+' + bytes.length : '');
let ledger = [];

const server = http.createServer({ keepAliveTimeout: 60000 }, (req, res) => {
  const line = `${req.method} ${hex(Buffer.from(req.url, 'latin1'))} ${hex(Buffer.from(req.headers.host || '', 'latin1'))} `;
  if (req.url === '/ledger') {
    res.end(ledger.join('\n'));
    ledger = [];
    return;
  }
  const at = ledger.push(line + '!') - 1;
  const mine = ledger;
  const pieces = [];
  req.on('data', (piece) => pieces.push(piece));
  req.on('end', () => {
    mine[at] = line + hex(Buffer.concat(pieces));
    res.setHeader('X-Seen', mine[at]);
    res.end('seen\n');
  });
});
server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));
