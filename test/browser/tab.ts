import type { Page } from "playwright-core";
import { eventually } from "../harness/waiting.ts";
import { openProfile } from "./profile.ts";

export interface Init extends Omit<RequestInit, "body" | "headers"> {
  body?: string | Uint8Array;
  headers?: Record<string, string>;
}
/** All that a script may read of an answer; or, in Chromium's words, why it may not. */
type Read =
  | { type: ResponseType; status: number; headers: Record<string, string>; body: unknown }
  | { blocked: string };
/** What a socket came to; or, in Chromium's words, why it did not open. */
type Talk = { protocol: string; heard: unknown[] } | { refused: string };

export interface Tab {
  readonly page: Page;
  /** `fetch` in a script of the page. */
  read(url: string, init?: Init): Promise<Read>;
  /** `fetch` whose body is read while it arrives. */
  stream(url: string, init?: Init): Promise<Stream>;
  /** A WebSocket that says hello and leaves once it has heard two messages. */
  talk(url: string, protocols?: string[]): Promise<Talk>;
}
interface Stream {
  /** Reads on until this text has come, and no further; resolves to all that has come. */
  until(text: string): Promise<string>;
}

export async function openTab(url: string): Promise<Tab> {
  const context = await openProfile();
  const page = await context.newPage();
  const blocked: string[] = [];
  const refused: string[] = [];
  const network = await context.newCDPSession(page);
  await network.send("Network.enable");
  network.on("Network.loadingFailed", ({ corsErrorStatus: status }) => void (status && blocked.push(status.corsError)));
  page.on("websocket", (socket) => void socket.on("socketerror", (text) => void refused.push(text)));
  await page.goto(url);

  return {
    page,
    async read(target, init = {}) {
      return (await page.evaluate(read, { target, init })) ?? { blocked: await next(blocked) };
    },
    async stream(target, init = {}) {
      const stream = await page.evaluateHandle(open, { target, init });
      return { until: (text) => stream.evaluate((opened, wanted) => opened.until(wanted), text) };
    },
    async talk(target, protocols = []) {
      return (await page.evaluate(talk, { target, protocols })) ?? { refused: await next(refused) };
    },
  };
}

/** Resolves to the reason of a failure, which may arrive later than the failure itself. */
const next = (reasons: string[]): Promise<string> =>
  eventually(() => {
    const reason = reasons.shift();
    if (reason === undefined) throw new Error("It failed, and not for a reason that a server gives");
    return reason;
  });

// The functions below run in the page: all that they use stands inside them.

async function read({ target, init }: { target: string; init: Init }): Promise<Read | undefined> {
  const response = await fetch(target, init as RequestInit).catch(() => undefined);
  if (!response) return undefined;
  const { type, status, headers } = response;
  const text = await response.text();
  const isJson = headers.get("content-type")?.startsWith("application/json");
  return { type, status, headers: Object.fromEntries(headers), body: isJson ? JSON.parse(text) : text };
}

async function open({ target, init }: { target: string; init: Init }): Promise<Stream> {
  const response = await fetch(target, init as RequestInit);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let all = "";
  async function until(text: string): Promise<string> {
    while (!all.includes(text)) {
      const { done, value } = await reader.read();
      if (done) throw new Error(`ended without ${text}: ${all}`);
      all += value;
    }
    return all;
  }
  return { until };
}

function talk({ target, protocols }: { target: string; protocols: string[] }): Promise<Talk | undefined> {
  return new Promise((resolve) => {
    const heard: unknown[] = [];
    const socket = new WebSocket(target, protocols);
    socket.addEventListener("open", () => socket.send("hello"));
    socket.addEventListener("message", ({ data }) => {
      if (heard.push(JSON.parse(data as string)) === 2) socket.close();
    });
    socket.addEventListener("close", () =>
      resolve(heard.length > 0 ? { protocol: socket.protocol, heard } : undefined),
    );
  });
}
