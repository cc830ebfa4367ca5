/** Formats a time. Executions and events of one moment share their times, and formatting is expensive, so the last ones are kept. */
export function toIso(at: number): string {
  const slot = at % slots;
  let kept = recent[slot];
  if (kept?.at !== at) recent[slot] = kept = { at, text: new Date(at).toISOString() };
  return kept.text;
}

const slots = 64;
const recent: ({ readonly at: number; readonly text: string } | undefined)[] = Array.from({ length: slots });
