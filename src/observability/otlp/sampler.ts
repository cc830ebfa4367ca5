import type { SpanIds } from "../../core/trace.ts";

/** Decides whether a span is exported. */
export type Sampler = (traceId: string, parent: SpanIds | undefined) => boolean;

/** Creates the sampler of `OTEL_TRACES_SAMPLER`. Returns undefined for an unknown name or an invalid ratio. */
export function toSampler(name: string, argument: string): Sampler | undefined {
  const [, isParentBased, kind] = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(name) ?? [];
  const ratio = kind === "traceidratio" ? toRatio(argument) : Number(kind === "always_on");
  if (kind === undefined || ratio === undefined) return undefined;
  const isChosen: Sampler = (traceId) => toFraction(traceId) >= 1 - ratio;
  return isParentBased
    ? (traceId, parent) => (parent ? parent.sampled !== false : isChosen(traceId, parent))
    : isChosen;
}

function toRatio(text: string): number | undefined {
  if (text === "") return 1;
  const ratio = Number(text);
  return ratio >= 0 && ratio <= 1 ? ratio : undefined;
}

/** Returns a number from 0 to 1 (exclusive) by the end of the id, which W3C asks to be random. */
const toFraction = (traceId: string): number => Number.parseInt(traceId.slice(-13), 16) / 2 ** 52;
