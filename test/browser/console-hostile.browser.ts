import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { agentserve, bin, run, type Child } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { bySize } from "../harness/size.ts";
import { until } from "../harness/waiting.ts";
import { openPage } from "./console-page.ts";
import { createHostileTexts } from "./hostile-texts.ts";

const texts = createHostileTexts(bySize(500, 2_000));
const config = readFileSync(new URL("hostile-project/agents.config.ts", import.meta.url), "utf8");
const hidden = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu;
/** A text as the page shows it: characters that cannot be seen are written out. */
const plain = (text: string): string =>
  text.replace(hidden, (one) => `\\u${one.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`);
/** A text as a string of JSON. */
const quoted = (text: string): string => plain(JSON.stringify(text));
const both = (text: string): string[] => [plain(text), quoted(text)];
/** For ids and titles: at most 200 characters, and Unicode. The number at the end of a text makes it unique. */
const ids = texts.map((text) => text.slice(-200).toWellFormed());
const chunk = <T>(values: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(values.length / size) }, (_, n) => values.slice(n * size, (n + 1) * size));

// Up to 2,000 texts in each place where a user, a model or a developer can write one, served by `dev` in a terminal. Each of these
// changes makes a test of this file fail: a text is set as HTML; the descriptions and choices of a form are shown as they
// are; an escape is written to the log as it is.
describe("hostile texts", { timeout: 900_000 }, () => {
  it("shows hostile names, purposes, descriptions, instructions, fields and tools as texts", async () => {
    const { show, expectHarmless } = await serve();
    await show("/workflows", texts.map(plain));
    await show("/workflows/steps", texts.map(plain)); // fields of its form, and its steps
    await show("/agents", texts.map(plain));
    await show("/agents/instructed", texts.map(plain));
    await show("/agents/equipped", texts.map(plain)); // its tools
    await expectHarmless();
  });

  it("shows hostile inputs, outputs, events and log records as texts", async () => {
    const { page, go, post, show, expectHarmless } = await serve();
    const input = Object.fromEntries(texts.map((text) => [text, text]));
    await post("/workflows/values/execute", { input, options: { executionId: "values-1", userId: texts[0] } });
    await go("/runs/values/values-1?tab=events");
    await page.getByRole("button", { name: /workflow-suspended/ }).waitFor(); // the page reads the stream
    await post("/workflows/values/executions/values-1/resume", { resumeData: { texts } });
    await page.getByRole("group", { name: new RegExp(`^${texts.length / 100}\\d\\d events$`) }).waitFor();
    const events = await page.evaluate(scrollThrough, ".tree");
    expect(texts.filter((text) => !events.includes(plain(text)))).toEqual([]);
    await show("/runs/values/values-1?step=emit", texts.flatMap(both));
    await show("/runs/values/values-1?tab=state", texts.map(quoted));
    await show("/runs/values/values-1?tab=again", [plain(texts[0]!)]);
    for (const [n, logged] of chunk(texts, 400).entries()) {
      // The page shows the newest 500 records.
      const executionId = `logs-${n}`;
      await post("/workflows/logs/execute", { input: { from: n * 400, count: 400 }, options: { executionId } });
      await show(`/log?executionId=${executionId}`, logged.flatMap(both));
      await show(`/runs/logs/${executionId}?tab=log`, logged.flatMap(both));
    }
    await expectHarmless();
  });

  it("shows hostile errors, reasons and spans of runs as texts", async () => {
    const { page, post, go, show, read, expectHarmless } = await serve();
    await sendAll(texts, (text) => post("/workflows/fails/execute", { input: { text } }));
    await go("/runs");
    const seen: string[] = [];
    for (;;) {
      await until(async () => (await page.locator("table.runs tbody tr").count()) === 50, "a page of runs");
      seen.push(await read());
      const older = page.getByRole("button", { name: "Older" });
      if (await older.isDisabled()) break;
      const first = await page.locator("[data-run]").first().getAttribute("data-run");
      await older.click();
      await until(
        async () => (await page.locator("[data-run]").first().getAttribute("data-run")) !== first,
        "older runs",
      );
    }
    const shown = seen.join("\n");
    expect(texts.filter((text) => !shown.includes(plain(text.slice(0, 200))))).toEqual([]);
    for (const some of chunk(texts, 500)) {
      // The page shows at most 1,000 of them.
      const toId = (text: string): string => `ask-${texts.indexOf(text)}`;
      await sendAll(some, (text) =>
        post("/workflows/asks/execute", { input: { text }, options: { executionId: toId(text) } }),
      );
      await show("/inbox", some.map(plain));
      await sendAll(some, (text) => post(`/workflows/asks/executions/${toId(text)}/cancel`, { reason: text }));
    }
    await go("/traces");
    const traces = page.getByText("POST /workflows/:id/execute");
    // Only those after its socket is open are shown.
    while ((await traces.count()) === 0) await post("/workflows/fails/execute", { input: { text: texts[1] } });
    await traces.last().click();
    await page.getByText("step fail").last().click();
    await until(async () => (await read()).includes(quoted(texts[1]!)), "the error of a span");
    for (const place of [`/runs/${encodeURIComponent(ids[1]!)}/e`, `/workflows/${encodeURIComponent(ids[1]!)}`]) {
      await go(place);
      await page.getByRole("alert").first().waitFor();
      await read();
    }
    await expectHarmless();
  });

  it("shows hostile ids, titles and words of conversations and hostile tool calls as texts", async () => {
    const { page, go, read, send, post, show, expectHarmless } = await serve();
    const byAgent = [...chunk(ids, 500).entries()]; // a page shows the newest 500 conversations
    for (const [n, some] of byAgent) {
      await sendAll(some, (id) => {
        const file = { type: "file", mediaType: "text/plain", url: "data:text/plain;base64,eA==", filename: id };
        return post(`/agents/talks-${n}/chat`, { id, messages: [{ id, role: "user", parts: [file] }] });
      });
      await go(`/agents/talks-${n}`);
      await until(async () => {
        await read();
        const links = await page.evaluate(() => Array.from(document.links, (link) => link.hash));
        return some.every((id) => links.includes(`#/agents/talks-${n}/${encodeURIComponent(id)}`));
      }, `the ids of talks-${n}, which are in links only`);
    }
    for (const [n, some] of byAgent) {
      const titles = new Map(some.map((id, index) => [id, some.at(index - 1)!]));
      await sendAll(some, (id) =>
        send("PATCH", `/agents/talks-${n}/conversations/${encodeURIComponent(id)}`, { title: titles.get(id) }),
      );
      await show(`/agents/talks-${n}`, some.map(plain));
    }
    for (const [n, words] of chunk(texts, 100).entries()) {
      const to = encodeURIComponent(ids[n]!);
      const toMessages = (text: string) => [{ id: "m", role: "user", parts: [{ type: "text", text }] }];
      await post("/agents/described-0/chat", { id: ids[n], messages: toMessages(words.join("\n")) });
      await show(`/agents/described-0/${to}`, words.map(plain));
      await post(`/agents/calls-${n}/chat`, { id: ids[n], messages: toMessages("Call them") });
      await show(`/agents/calls-${n}/${to}`, words.flatMap(both));
    }
    expect(await page.getByRole("article", { name: "Answer" }).count()).toBe(1);
    await expectHarmless();
  });
});

/** Serves the project in a terminal, and opens its console. */
async function serve() {
  const cwd = createProject({ "agents.config.ts": config, "texts.json": JSON.stringify(texts) });
  const env = { ...process.env, NO_COLOR: "1" }; // so that the server has no reason to write an escape
  const command = `exec ${process.execPath} ${bin} dev --port 0 --data :memory:`;
  const child = run("script", ["-qec", command, "/dev/null"], { cwd, env });
  const terminal = keepRaw(child);
  const [url] = await child.waitFor(/http:\/\/[\d.]+:\d+/);
  const { page, faults } = await openPage(`${url}/console#/inbox`);
  const go = (to: string): Promise<void> => page.evaluate((place) => void (location.hash = place), to);
  const read = async (): Promise<string> => {
    const { text, problems } = await page.evaluate(openAll, elements);
    expect(problems).toEqual([]);
    return text;
  };
  const send = async (method: string, path: string, body: unknown): Promise<void> => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(url + path, { method, headers, body: JSON.stringify(body) });
    const text = await response.text();
    if (response.status >= 500 && !path.includes("/fails/")) throw new Error(`${path}: ${response.status} ${text}`);
    if (response.status >= 400 && response.status < 500) throw new Error(`${path}: ${response.status} ${text}`);
  };
  return {
    page,
    go,
    read,
    send,
    post: (path: string, body: unknown) => send("POST", path, body),
    /** Opens a place, and everything in it that opens, until it shows these texts. */
    async show(place: string, wanted: readonly string[]): Promise<void> {
      await go(place);
      let missing: string[] = [];
      await until(
        async () => {
          const text = await read();
          missing = wanted.filter((one) => !text.includes(one));
          return missing.length === 0;
        },
        () => `${missing.length} texts in ${place}, for example ${missing.slice(0, 3).join(" | ")}`,
      );
    },
    /** No script has run, in no view; and nothing of the texts has reached a terminal as it is. */
    async expectHarmless(): Promise<void> {
      expect(await page.evaluate(() => Reflect.get(globalThis, "hacked") as unknown)).toBeUndefined();
      expect(new URL(page.url()).origin).toBe(url);
      expect(faults).toEqual([]);
      for (const args of [["runs", "list"], ["logs"], ["routes"]]) {
        const listing = agentserve([...args, ...(args[0] === "routes" ? [] : ["--url", url!])], { cwd, env });
        const printed = keepRaw(listing);
        expect((await listing.ended).code).toBe(0);
        expectNoEscape(printed());
      }
      child.process.kill("SIGTERM");
      await child.ended;
      expectNoEscape(terminal());
    },
  };
}

/** Returns the output so far as it is. */
function keepRaw({ process: { stdout, stderr } }: Child): () => string {
  let raw = "";
  for (const stream of [stdout!, stderr!]) stream.on("data", (part: string) => (raw += part));
  return () => raw;
}
function expectNoEscape(output: string): void {
  expect(output.length).toBeGreaterThan(0);
  expect(output.match(/(?![\t\r\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu) ?? []).toEqual([]);
}

/** Sends for each value, a few at the same time. */
async function sendAll<T>(values: readonly T[], one: (value: T) => Promise<void>): Promise<void> {
  for (const few of chunk(values, 20)) await Promise.all(few.map(one));
}

/** The elements that the page makes. Others could only come from markup in a text. */
const elements = (
  "A ARTICLE ASIDE BDI BR BUTTON CODE DD DETAILS DIALOG DIV DL DT FIELDSET FOOTER FORM H1 H2 H3 HEADER INPUT LABEL LEGEND " +
  "LI MAIN NAV NOSCRIPT OL OPTION P PRE SECTION SELECT SMALL SPAN STRONG SUMMARY TABLE TBODY TD TEXTAREA TH THEAD TIME TR UL"
).split(" ");

// The functions below run in the page.

/** Opens everything that opens. Returns the text, and the elements and attributes that only a text could have made. */
async function openAll(known: readonly string[]): Promise<{ text: string; problems: string[] }> {
  const main = document.querySelector("main")!;
  for (let round = 0; round < 100; round++) {
    const closed = main.querySelectorAll<HTMLDetailsElement>("details:not([open])");
    const more = [...main.querySelectorAll("button")].filter(
      (button) =>
        !button.disabled &&
        /^(\d+ more|\d+ more characters|More|Show older ones|Read [\d,]+ KB)$/.test(button.textContent),
    );
    if (closed.length + more.length === 0) break;
    for (const one of closed) one.open = true;
    for (const one of more) one.click();
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  }
  const all = [...document.body.querySelectorAll("*")];
  const problems = all.flatMap((element) => [
    ...(known.includes(element.tagName) ? [] : [element.tagName]),
    ...[...element.attributes].filter(({ name }) => /^on|^srcdoc$/.test(name)).map(({ name }) => name),
    ...(element instanceof HTMLAnchorElement && !/^(#|blob:)/.test(element.getAttribute("href")!)
      ? [element.href]
      : []),
  ]);
  const text = main.textContent;
  if (/(?![\t\n])[\p{Cc}\p{Cf}]/u.test(text)) problems.push("a hidden character");
  return { text, problems: [...new Set(problems)] };
}

/** Scrolls to the end, and returns every text that was shown on the way. */
async function scrollThrough(selector: string): Promise<string> {
  const box = document.querySelector(selector)!;
  const seen: string[] = [];
  for (let top = 0; top <= box.scrollHeight; top += box.clientHeight / 2) {
    box.scrollTop = top;
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    seen.push(box.textContent);
  }
  return seen.join("\n");
}
