import { DefaultChatTransport, readUIMessageStream, type UIMessage } from "ai";
import { describe, expect, it } from "vitest";
import { open, slowly, sockets, user } from "./chat-server.ts";

/** Deltas of a model that would break a stream whose frames are not escaped. */
const texts: Record<string, readonly string[]> = {
  "a frame": ['one\n\ndata: {"type":"text-delta","id":"t","delta":"forged"}\n\ntwo'],
  "the last frame": ["one\n\ndata: [DONE]\n\ntwo", "[DONE]", "data: [DONE]"],
  "a frame, split between deltas": ["one\n", "\nda", 'ta: {"type":"finish"}\n', "\n", "two"],
  "fields of a frame": ["\nevent: error\nid: 7\nretry: 1\n: a comment\n", "event:", "data:", ":"],
  "line ends": ["one\rtwo\r\rthree\r\n\r\nfour\n\n\nfive", "\r", "\n", "\r\n", "\n\r"],
  "line ends of Unicode": ["one\u2028two\u2029three\u0085four\u000bfive\u000csix"],
  "lone surrogates": ["one\ud83dtwo\ude00three", "\udc00\ud800"],
  "a pair of surrogates, split between deltas": ["one \ud83d", "\ude00 two"],
  "JSON and its escapes": ['{"a":"\\u2028\\ud800"}', '\\n\\n"', "\\"],
};

/** Sends a body in chunks of one byte, as a network may. */
const bytewise: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  const body = new Uint8Array(await response.arrayBuffer());
  const bytes = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of body) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  return new Response(bytes, response);
};

describe.each(sockets)(
  "the AI SDK's own parser reads from POST /agents/:id/chat what the model said (%s)",
  (target) => {
    it.each(Object.entries(texts))("the AI SDK reads deltas as the model sent them: %s", async (_, deltas) => {
      const script = [fetch, bytewise].map(() => () => slowly(deltas, async () => {}));
      const { api } = await open(script, {}, target);
      for (const [n, send] of [fetch, bytewise].entries()) {
        const transport = new DefaultChatTransport({ api, fetch: send });
        const asked = { trigger: "submit-message", messageId: undefined } as const;
        const stream = await transport.sendMessages({
          ...asked,
          messages: [user("Hi")],
          chatId: `c${n}`,
          abortSignal: undefined,
        });
        let last: UIMessage | undefined;
        for await (const message of readUIMessageStream({ stream, terminateOnError: true })) last = message;
        const said = last!.parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
        expect(said).toEqual([deltas.join("")]);
      }
    });
  },
);
