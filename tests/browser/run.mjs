// A headless Chromium, controlled by playwright-core, uses the examples as people do. Called by tests/long/browser.sh:
//   node run.mjs CHROMIUM PROFILE CLOCK_URL UPLOAD_URL LISTING_URL DEBUG_URL FILE SHOTS
// Prints "ok - name" or "not ok - name: reason", and writes screenshots to SHOTS, in two widths, light and dark.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { basename } from "node:path";

// `import` searches packages in the folder of this file; this package is in the folder that the shell script has made.
const { chromium } = createRequire(`${process.cwd()}/`)("playwright-core");
const [executablePath, profile, clock, upload, listing, debug, file, shots] = process.argv.slice(2);

const context = await chromium.launchPersistentContext(profile, {
  executablePath,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
context.setDefaultTimeout(15000);
let failed = 0;

async function check(name, run) {
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (e) => problems.push(String(e)));
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

async function screenshots(page, name) {
  for (const [width, height, kind] of [[390, 844, "phone"], [1280, 800, "desktop"]])
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: `${shots}/${name}-${kind}-${colorScheme}.png` });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      assert.ok(overflow <= 0, `${name} is ${overflow} px wider than a ${kind}`);
    }
}

await check("the clock's page gets its events", async (page) => {
  await page.goto(clock);
  const text = () => page.locator("#clock").textContent();
  await page.waitForFunction(() => /^\d\d:\d\d:\d\d$/.test(document.querySelector("#clock").textContent));
  const first = await text();
  await page.waitForFunction((was) => document.querySelector("#clock").textContent !== was, first);
  await screenshots(page, "clock");
});

await check("a file goes up through the form and comes down again", async (page) => {
  await page.goto(upload);
  await page.setInputFiles("input[type=file]", file);
  const button = page.locator("form button, form input[type=submit]");
  if (await button.count()) await button.first().click();
  const link = page.locator("a", { hasText: basename(file).replace(/\.[^.]*$/, "") }).first();
  await link.waitFor();
  const href = new URL(await link.getAttribute("href"), page.url());
  const answer = await page.request.get(href.href);
  assert.equal(answer.status(), 200);
  assert.equal((await answer.body()).length, 100000);
  await screenshots(page, "upload");
});

if (listing !== "-")
  await check("a link of the directory listing leads to its file, and one to a folder and back", async (page) => {
    await page.goto(listing);
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
  const answer = await page.goto(debug);
  assert.equal(answer.status(), 500);
  assert.match(await page.locator("body").innerText(), /<b>no markup<\/b>/);
  await screenshots(page, "debug");
});

await context.close();
process.exit(failed ? 1 : 0);
