// A headless Chromium, controlled by playwright-core, uses the examples as people do. Called by tests/long/browser.sh:
//   LIO_CHAT="PROGRAM SCRIPT" node run.mjs CHROMIUM PROFILE FILE SHOTS NAME=URL...
// The names are those of the servers in browser.sh; `book` is optional. LIO_CHAT is the command that serves the chat.
// The current folder contains cert.pem and key.pem, for the chat over wss. Prints "ok - name" or "not ok - name: reason",
// and writes screenshots to SHOTS, in two widths, light and dark. axe-core inspects each page that has a screenshot.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";

// `import` searches packages in the folder of this file; these are in the folder that the shell script has made.
const require = createRequire(`${process.cwd()}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [executablePath, profile, file, shots, ...servers] = process.argv.slice(2);
const urls = Object.fromEntries(servers.map((server) => server.split("=")));

const context = await chromium.launchPersistentContext(profile, {
  executablePath,
  headless: true,
  ignoreHTTPSErrors: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
context.setDefaultTimeout(15000);
let failed = 0;

// `expected`: a pattern of the messages in the console that the check causes.
async function check(name, run, expected) {
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (e) => problems.push(String(e)));
  page.on("console", (message) => {
    if (message.type() !== "error" || expected?.test(message.text())) return;
    if (!message.location().url.endsWith("/favicon.ico")) problems.push(message.text());
  });
  try {
    await run(page);
    assert.deepEqual(problems, []);
    console.log(`ok - ${name}`);
  } catch (e) {
    failed++;
    console.log(`not ok - ${name}: ${String(e.stack).replaceAll("\n", " | ")}`);
  }
  await page.close();
}

// The problems that axe-core finds: names of controls, contrast, headings, landmarks and others. Its doubts count, too,
// if they are about names that an element without a role cannot have.
async function violations(page) {
  await page.evaluate(axe);
  // axe-core takes a page without a background for white, even in the dark scheme.
  await page.evaluate(() => {
    const isBare = (element) => getComputedStyle(element).backgroundColor === "rgba(0, 0, 0, 0)";
    if ([document.documentElement, document.body].every(isBare)) document.body.style.background = "Canvas";
  });
  const found = await page.evaluate(() => globalThis.axe.run());
  const doubts = found.incomplete.filter((rule) => rule.id === "aria-prohibited-attr");
  return [...found.violations, ...doubts].map((rule) => `${rule.id}: ${rule.nodes[0].html.slice(0, 150)}`);
}

async function screenshots(page, name) {
  for (const [width, height, kind] of [[320, 640, "narrow"], [390, 844, "phone"], [1280, 800, "desktop"]])
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      if (kind !== "narrow") await page.screenshot({ path: `${shots}/${name}-${kind}-${colorScheme}.png` });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      assert.ok(overflow <= 0, `${name} is ${overflow} px wider than the window (${kind})`);
      const ground = await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
      assert.match(ground, /dark/, `${name} has no dark scheme`);
      assert.deepEqual(await violations(page), [], `${name}, ${kind}, ${colorScheme}`);
    }
  assert.match(await page.locator("meta[name=viewport]").getAttribute("content"), /width=device-width/);
}

await check("the clock's page gets its events", async (page) => {
  await page.goto(urls.clock);
  const text = () => page.locator("#clock").textContent();
  await page.waitForFunction(() => /^\d\d:\d\d:\d\d$/.test(document.querySelector("#clock").textContent));
  const first = await text();
  await page.waitForFunction((was) => document.querySelector("#clock").textContent !== was, first);
  await screenshots(page, "clock");
});

await check("a file goes up through the form and comes down again", async (page) => {
  await page.goto(urls.upload);
  await screenshots(page, "upload-empty");
  await page.getByLabel("Files").setInputFiles(file);
  await page.getByRole("button", { name: "Upload" }).click();
  const link = page.locator("a", { hasText: basename(file).replace(/\.[^.]*$/, "") }).first();
  await link.waitFor();
  const href = new URL(await link.getAttribute("href"), page.url());
  const answer = await page.request.get(href.href);
  assert.equal(answer.status(), 200);
  assert.equal((await answer.body()).length, 100000);
  await screenshots(page, "upload");
});

await check("no second upload starts before the first has ended", async (page) => {
  const posts = [];
  await page.route("**/*", (route) => {
    if (route.request().method() === "POST") posts.push(route);
    else route.continue();
  });
  await page.goto(urls.upload);
  await page.getByLabel("Files").setInputFiles(file);
  const button = page.getByRole("button", { name: "Upload" });
  const posted = page.waitForRequest((request) => request.method() === "POST");
  await button.click();
  await posted;
  assert.equal(await button.isDisabled(), true);
  await page.locator("form").evaluate((form) => form.dispatchEvent(new Event("submit", { cancelable: true })));
  await posts[0].abort();
  await page.getByText("The connection failed.").waitFor();
  assert.equal(posts.length, 1);
  assert.equal(await button.isDisabled(), false);
}, /ERR_FAILED/);

await check("a link of the directory listing leads to its file, and one to a folder and back", async (page) => {
  await page.goto(urls.listing);
  await screenshots(page, "listing");
  await page.getByRole("link", { name: "odd & <name>.txt" }).click();
  assert.equal(await page.locator("body").innerText(), "what is in it");
  await page.goBack();
  await page.getByRole("link", { name: /^folder/ }).click();
  await page.getByRole("link", { name: "inside.txt" }).waitFor();
  await screenshots(page, "folder");
  await page.getByRole("link", { name: /^(\.\.|Parent|Up|↑)/i }).first().click();
  await page.getByRole("link", { name: "odd & <name>.txt" }).waitFor();
});

await check("the debug page shows the error, escaped", async (page) => {
  const answer = await page.goto(urls.debug);
  assert.equal(answer.status(), 500);
  assert.match(await page.locator("body").innerText(), /<b>no markup<\/b>/);
  await screenshots(page, "debug");
}, /status of 500/);

await check("the primes are counted, and a failure is shown", async (page) => {
  await page.goto(urls.primes);
  const limit = page.getByLabel("up to"), answer = page.getByRole("status");
  const count = async (value, shown) => {
    await limit.fill(value);
    await page.getByRole("button", { name: "Count" }).click();
    await answer.filter({ hasText: shown }).waitFor();
  };
  await count("1e3", /^168 primes, in \d+ ms$/);
  assert.equal(await page.locator("tbody tr").count(), 16);
  await screenshots(page, "primes");
  await count("0", /^0 primes/);
  assert.equal(await page.getByRole("table").count(), 0);
  await limit.fill("");
  await page.getByRole("button", { name: "Count" }).click();
  assert.match(await answer.textContent(), /^0 primes/);
  assert.equal(await limit.evaluate((input) => input.validity.valueMissing), true);
  await page.route("**/primes/7", (route) => route.abort());
  await count("7", /^There is no count: Failed to fetch$/);
  await limit.evaluate((input) => input.removeAttribute("max"));
  await count("5000001", /^There is no count: a number up to 5000000, please$/);
}, /ERR_FAILED|status of 400/);

await check("the page of the web service shows the time", async (page) => {
  await page.goto(urls.webservice);
  await page.getByText(/^It is .*\d\d:\d\d/).waitFor();
  await screenshots(page, "webservice");
});

// Enters a room of the chat at a URL.
async function enterChat(page, url, name, room) {
  await page.goto(url);
  await page.getByLabel("Your name").fill(name);
  await page.getByLabel("Room").fill(room);
  await page.getByRole("button", { name: "Enter" }).click();
  await page.getByRole("status").filter({ hasText: /^connected$/ }).waitFor();
}

async function sayInChat(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

const saidInChat = (page, text) => page.getByRole("log", { name: "Messages" }).getByText(text, { exact: true });

await check("two pages of the chat see each other's messages, as text", async (page) => {
  await page.goto(urls.chat);
  await page.getByLabel("Your name").waitFor();
  await screenshots(page, "chat-enter");
  await enterChat(page, urls.chat, "Ada", "garden");
  const other = await context.newPage();
  await enterChat(other, urls.chat, "Bob", "garden");
  await page.getByText("Here: Ada, Bob").waitFor();
  await sayInChat(page, "Good morning! Is the <b>gate</b> open?");
  await saidInChat(other, "Good morning! Is the <b>gate</b> open?").waitFor();
  await sayInChat(other, "It is. I am at the pond, where a heron has been standing for an hour without any movement.");
  await saidInChat(page, /heron/).waitFor();
  await sayInChat(page, "aVeryLongWordWithoutAnySpaceThatHasToBeBrokenSoThatThePageDoesNotGetWiderThanTheWindow".repeat(2));
  await page.locator("li.mine").nth(1).waitFor();
  assert.equal(await page.locator("li.mine").count(), 2);
  assert.equal(await other.locator("li.mine").count(), 1);
  await screenshots(page, "chat");
  await other.close();
  await page.getByText("Here: Ada", { exact: true }).waitFor();
});

// Starts the chat at a port; 0: the system chooses one. Returns the process and the URL.
async function startChat(port, ...files) {
  const [program, script] = process.env.LIO_CHAT.split(" ");
  const child = spawn(program, [script, String(port), ...files], { stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (data) => {
      text += data;
      const found = text.match(/https?:\/\/[0-9.:]+\//);
      if (found) resolve(found[0]);
    });
    child.on("exit", (code) => reject(new Error(`the chat has ended with ${code}: ${text}`)));
  });
  return { child, url };
}

await check("the chat's page survives a restart of its server, and keeps a text that was not sent", async (page) => {
  let server = await startChat(0);
  try {
    await enterChat(page, server.url, "Ada", "garden");
    await sayInChat(page, "before the restart");
    await saidInChat(page, "before the restart").waitFor();
    const ended = new Promise((resolve) => server.child.once("exit", resolve));
    server.child.kill("SIGTERM");
    assert.equal(await ended, 0);
    await page.getByText("connection lost, trying again").waitFor();
    assert.equal(await page.getByRole("button", { name: "Send" }).isDisabled(), true);
    await page.getByLabel("Message", { exact: true }).fill("after the restart");
    await page.screenshot({ path: `${shots}/chat-lost.png` });
    server = await startChat(new URL(server.url).port);
    await page.getByRole("status").filter({ hasText: /^connected$/ }).waitFor();
    await page.getByRole("button", { name: "Send" }).click();
    await saidInChat(page, "after the restart").waitFor();
    await saidInChat(page, "before the restart").waitFor();
    assert.equal(await page.getByRole("listitem").count(), 2);
  } finally {
    server.child.kill("SIGKILL");
  }
}, /ERR_CONNECTION_REFUSED|WebSocket connection/);

await check("two pages of the chat see each other's messages over wss", async (page) => {
  const { child, url } = await startChat(0, "cert.pem", "key.pem");
  try {
    assert.match(url, /^https:/);
    await enterChat(page, url, "Ada", "garden");
    const other = await context.newPage();
    await enterChat(other, url, "Bob", "garden");
    await sayInChat(page, "over TLS");
    await saidInChat(other, "over TLS").waitFor();
    await other.close();
  } finally {
    child.kill("SIGKILL");
  }
});

if (urls.book) {
  await check("the book has its colours, its menu of themes and its search", async (page) => {
    await page.goto(`${urls.book}webserver.html`);
    await page.locator("code.hljs .hljs-keyword").first().waitFor();
    await page.locator("#mdbook-theme-toggle").click();
    await page.locator("#mdbook-theme-list").waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("s");
    await page.locator("#mdbook-searchbar").waitFor();
    await page.goto(`${urls.book}zh/why.html`);
    assert.equal(await page.locator("html").getAttribute("lang"), "zh-CN");
  });

  await check("a folder's page in the book lists the files of its subfolders, and leads back", async (page) => {
    await page.goto(`${urls.book}files/examples/ltask/index.html`);
    await page.getByRole("link", { name: "web/main.lua" }).waitFor();
    await screenshots(page, "book-folder");
    await page.getByRole("link", { name: "The book" }).click();
    await page.locator("#mdbook-sidebar").waitFor({ state: "attached" });
  });
}

await context.close();
process.exit(failed ? 1 : 0);
