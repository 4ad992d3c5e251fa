// Node's fetch (undici) against tests/peers/server.lua: keep-alive, JSON, streams in both directions, a redirect, a
// response that is cut short, a request that is aborted. By hand: `node tests/peers/fetch_peer.mjs PORT`.
import assert from "node:assert/strict";

const base = `http://127.0.0.1:${process.argv[2]}`;
const encoder = new TextEncoder();

const cases = {
  async "300 requests, eight at a time"() {
    for (let i = 0; i < 300; i += 8)
      await Promise.all(Array.from({ length: 8 }, async (_, k) => {
        const r = await fetch(`${base}/path/${i + k}`);
        assert.equal(await r.text(), `/path/${i + k}`);
      }));
  },
  async "JSON, 204, 304, HEAD and 404"() {
    assert.deepEqual((await (await fetch(`${base}/json`)).json()).list, [1, 2, 3]);
    assert.equal((await fetch(`${base}/nothing`)).status, 204);
    assert.equal((await fetch(`${base}/status/304`)).status, 304);
    assert.equal(await (await fetch(`${base}/json`, { method: "HEAD" })).text(), "");
    assert.equal((await fetch(`${base}/none`)).status, 404);
  },
  async "a stream goes up while its echo comes down"() {
    let step, seen = 0;
    const body = new ReadableStream({
      async pull(controller) {
        if (seen === 20) return controller.close();
        if (seen > 0) await new Promise((resolve) => { step = resolve; });
        controller.enqueue(encoder.encode(`piece ${seen++};`));
      },
    });
    const r = await fetch(`${base}/mirror`, { method: "POST", body, duplex: "half" });
    let text = "";
    for await (const piece of r.body) {
      text += Buffer.from(piece).toString();
      step?.(); // the next piece is sent only when this one has arrived
    }
    assert.equal(text, Array.from({ length: 20 }, (_, i) => `piece ${i};`).join(""));
  },
  async "16 MiB up in chunks and 16 MiB down"() {
    const piece = new Uint8Array(65536);
    let left = 256;
    const body = new ReadableStream({ pull(c) { left-- > 0 ? c.enqueue(piece) : c.close(); } });
    const r = await fetch(`${base}/count`, { method: "POST", body, duplex: "half" });
    assert.deepEqual(await r.json(), { bytes: 16 * 1024 * 1024 });
    assert.equal((await (await fetch(`${base}/large?kib=16384`)).arrayBuffer()).byteLength, 16 * 1024 * 1024);
  },
  async "a form and a redirect with its body"() {
    const r = await fetch(`${base}/form`, { method: "POST", body: new URLSearchParams({ a: "b c", "ü": "&" }) });
    assert.deepEqual(await r.json(), { a: "b c", "ü": "&" });
    assert.equal((await (await fetch(`${base}/redirect`, { method: "POST", body: "kept" })).json()).body, "kept");
  },
  async "a cut answer rejects, an aborted request harms nobody"() {
    await assert.rejects(async () => (await fetch(`${base}/cut`)).text());
    await assert.rejects(fetch(`${base}/slow?seconds=1`, { signal: AbortSignal.timeout(50) }));
    assert.equal(await (await fetch(base)).text(), "Hello, World!\n");
  },
};

let failed = 0;
for (const [name, run] of Object.entries(cases)) {
  try {
    await run();
    console.log(`ok - ${name}`);
  } catch (e) {
    failed++;
    console.log(`not ok - ${name}\t${e.stack}`);
  }
}
process.exit(failed ? 1 : 0);
