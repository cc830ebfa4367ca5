import { send, type RequestOptions } from "./api.ts";

/** Reads a stream of server-sent events, each one JSON. Ends with the stream. Calls `onOpen` when the server has answered. */
export async function* readEvents(
  path: string,
  { onOpen, ...options }: RequestOptions & { readonly onOpen?: () => void } = {},
): AsyncGenerator<unknown> {
  const response = await send(path, { ...options, headers: { accept: "text/event-stream", ...options.headers } });
  onOpen?.();
  if (!response.body) return;
  let rest = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      const data = frame.split("\n").flatMap((line) => (line.startsWith("data:") ? [line.slice(5).trimStart()] : []));
      if (data.length > 0) yield JSON.parse(data.join("\n"));
    }
  }
}
