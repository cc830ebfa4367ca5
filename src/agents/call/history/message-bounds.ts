import { cut } from "../../../core/cut.ts";
import { isObject, toObject } from "../../../core/json.ts";
import { invalid } from "./files.ts";

/** The bounds of all messages in one call. They are checked before the SDK's schemas, which block the event loop. */
export class MessageBounds {
  /** The number of messages and parts up to now. */
  parts = 0;
  #metadata = 0;

  /** Adds a message. Throws if it is over a bound. */
  add(message: unknown, where: string): void {
    const count = countParts(message);
    this.parts += count;
    if (count > maxParts + 1) throw invalid(where, `more than ${maxParts} parts`);
    if (this.parts > maxParts * 5) throw invalid(where, `more than ${maxParts * 5} messages and parts in all`);
    this.#metadata += countMetadata(message, where);
    if (this.#metadata > maxMetadata) {
      throw invalid(where, `more than ${maxMetadata} values in provider options and metadata`);
    }
  }
}

const maxParts = 1_000;
/** Counts a message, its parts, and the parts inside of tool results and steering messages. */
function countParts(message: unknown): number {
  const own = Object.values(partLists(toObject(message))).flat();
  if (own.length > maxParts) return own.length + 1;
  return own.reduce<number>((sum, part) => sum + Object.values(innerLists(part)).flat().length, own.length + 1);
}

type PartLists = Readonly<Record<string, readonly unknown[]>>;
const toList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** The parts of a message, by the field that has them. */
const partLists = ({ parts, content }: Record<string, unknown>): PartLists => ({
  parts: toList(parts),
  content: toList(content),
});

/** The parts inside of a part, by the field that has them. */
function innerLists(part: unknown): PartLists {
  const { parts, output } = toObject(part);
  const { type, value } = toObject(output);
  return { parts: toList(parts), "output.value": type === "content" ? toList(value) : [] };
}

/** Max values in the fields of `metadataKeys`, of all messages. The SDK's schemas need about 10 µs for each. */
const maxMetadata = 5_000;
const providerKeys = ["providerOptions", "providerMetadata", "callProviderMetadata", "resultProviderMetadata"];
const metadataKeys = [...providerKeys, "toolMetadata", "citations"];

/** Counts the values in the provider options and the metadata of a message, its parts, and the parts inside of these. */
function countMetadata(message: unknown, where: string): number {
  let count = 0;
  for (const [holder, place] of metadataHolders(message, where)) {
    for (const key of metadataKeys) {
      if (holder[key] === undefined) continue;
      count += countValues(holder[key], maxMetadata - count);
      if (count > maxMetadata) return count;
      if (providerKeys.includes(key)) checkProviders(holder[key], `${place}.${key}`);
    }
  }
  return count;
}

/** The objects that can have metadata, with their places. A message of plain text has none that is used. */
function* metadataHolders(message: unknown, where: string): Generator<[Record<string, unknown>, place: string]> {
  if (!isObject(message)) return;
  const parts = Object.entries(partLists(message)).flatMap(([field, list]) => toHolders(list, `${where}.${field}`));
  if (parts.length > 0) yield [message, where];
  for (const [part, place] of parts) {
    yield [part, place];
    for (const [field, list] of Object.entries(innerLists(part))) yield* toHolders(list, `${place}.${field}`);
  }
}

const toHolders = (list: readonly unknown[], where: string): [Record<string, unknown>, place: string][] =>
  list.map((part, index) => [toObject(part), `${where}.${index}`]);

/** Refuses the first entry that is wrong. The SDK's schema would describe each of them. */
function checkProviders(metadata: unknown, where: string): void {
  for (const [provider, values] of Object.entries(toObject(metadata))) {
    if (!isObject(values)) throw invalid(`${where}.${cut(provider)}`, "expected an object");
  }
}

/** Counts a value and the values in it. Ends once there are more than `most`. */
function countValues(value: unknown, max: number): number {
  if (typeof value !== "object" || value === null) return 1;
  let count = 1;
  const keys = Array.isArray(value) ? value.keys() : Object.keys(value);
  for (const key of keys) {
    count += countValues((value as Record<PropertyKey, unknown>)[key], max - count);
    if (count > max) break;
  }
  return count;
}
