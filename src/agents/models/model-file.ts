import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { Sdk } from "../sdk.ts";

type FilePart = Extract<LanguageModelV4StreamPart, { type: "file" | "reasoning-file" }>;

/** True for a file of which the provider has sent only the URL. */
export const isRemote = (part: LanguageModelV4StreamPart): part is FilePart =>
  (part.type === "file" || part.type === "reasoning-file") && part.data.type === "url";

/** Returns such a file with its data, which is loaded once. */
export async function withData(sdk: Sdk, part: FilePart, signal: AbortSignal | undefined): Promise<FilePart> {
  if (part.data.type !== "url") return part;
  const url = new URL(part.data.url); // a part that was recorded has a string
  const { data } = await sdk.createDownload()({ url, ...(signal && { abortSignal: signal }) });
  return { ...part, data: { type: "data", data } };
}
