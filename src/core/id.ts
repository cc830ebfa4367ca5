const pattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

/** Execution, workflow, agent and step ids: they stand in URLs, journal keys and idempotency keys. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && pattern.test(value);
}

export const idRule = "1 to 128 of A-Z a-z 0-9 . _ : - beginning with a letter or digit";
