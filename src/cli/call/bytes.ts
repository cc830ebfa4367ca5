/** The maximum size of an input, a response or an event: 16 MiB. */
export const maxBytes: number = 16 * 1_024 * 1_024;

/** Returns the text of a stream, or undefined if it has more than `most` bytes. */
export async function readUpTo(
  max: number,
  stream: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > max) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
