/** A start of a workflow, to be repeated elsewhere. */
export interface StartCommand {
  /** The whole URL of `POST …/execute`. */
  readonly url: string;
  readonly workflowId: string;
  readonly input: unknown;
  readonly context: Readonly<Record<string, unknown>>;
  /** The user of the execution, if the request names it. */
  readonly userId?: string | undefined;
  /** True if the server asks for a token. The command reads it from `TOKEN`. */
  readonly needsToken: boolean;
}

/** Returns a command for a POSIX shell. */
export function toCurl({ url, needsToken, ...start }: StartCommand): string {
  const lines = [
    `curl -X POST ${quote(url)}`,
    `-H 'content-type: application/json'`,
    ...(needsToken ? [`-H "authorization: Bearer $TOKEN"`] : []),
    `--data-raw ${quote(toVisibleJson(toBody(start)))}`,
  ];
  return lines.join(" \\\n  ");
}

/** Returns a TypeScript program for any runtime that has `fetch`. */
export function toFetch({ url, needsToken, ...start }: StartCommand): string {
  const token = needsToken ? ", authorization: `Bearer ${process.env.TOKEN}`" : "";
  return `const response = await fetch(${toVisibleJson(url)}, {
  method: "POST",
  headers: { "content-type": "application/json"${token} },
  body: JSON.stringify(${toLiteral(toBody(start), "  ")}),
});
console.log(await response.json());
`;
}

/** Returns a TypeScript statement for code that has a `runtime`: steps, tools, custom routes. */
export function toRuntimeCall({ workflowId, input, context }: StartCommand): string {
  const values = [toVisibleJson(workflowId), toLiteral(input, "")];
  if (hasKeys(context)) values.push(toLiteral({ context }, ""));
  return `const { executionId } = await runtime.start(${values.join(", ")});\n`;
}

const hasKeys = (value: object): boolean => Object.keys(value).length > 0;
function toBody({ input, context, userId }: Pick<StartCommand, "input" | "context" | "userId">) {
  const options = { ...(userId !== undefined && { userId }), ...(hasKeys(context) && { context }) };
  return { input, ...(hasKeys(options) && { options }) };
}

/** Quotes a text for a POSIX shell: nothing is special between single quotes, and a single quote cannot be between them. */
const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** Returns JSON without hidden characters, so that a paste into a terminal has exactly what is shown. */
const toVisibleJson = (value: unknown): string =>
  JSON.stringify(value).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (found) =>
    [...Array(found.length).keys()]
      .map((at) => String.raw`\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`)
      .join(""),
  );

/** Returns JSON as an expression of TypeScript, in which the key `__proto__` would otherwise set the prototype. */
function toLiteral(value: unknown, indent: string): string {
  if (typeof value !== "object" || value === null) return value === undefined ? "undefined" : toVisibleJson(value);
  const inner = `${indent}  `;
  const items = Array.isArray(value)
    ? value.map((item) => toLiteral(item, inner))
    : Object.entries(value).map(([key, item]) => `${toKey(key)}: ${toLiteral(item, inner)}`);
  const [start, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return items.length === 0
    ? start + end
    : `${start}\n${items.map((item) => `${inner}${item},\n`).join("")}${indent}${end}`;
}
const toKey = (key: string): string =>
  key === "__proto__" ? '["__proto__"]' : /^[a-z_$][\w$]*$/i.test(key) ? key : toVisibleJson(key);
