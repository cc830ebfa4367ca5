import type { Step } from "../../engine/definition/definition.ts";
import type { StepContext } from "../../engine/definition/step-context.ts";
import type { OutputOf } from "../../core/schema.ts";
import { quote } from "../../core/cut.ts";
import type { LoopContext } from "./and-for-each.ts";
import { createStep, type MaybeSchema, type OwnType, type StepOptions, type TypedStep } from "./step.ts";

/** A source of an `andMap()` field. A path such as `"user.name"` leads to a part of the value; null if there is none. */
export type MapSource<Data, Input, Resume, Suspend> =
  | { source: "value"; value: unknown }
  | { source: "data"; path?: string }
  | { source: "input"; path?: string }
  | { source: "step"; stepId: string; path?: string }
  | { source: "context"; key: string; path?: string }
  | { source: "fn"; fn: (context: LoopContext<Data, Input, Resume, Suspend>) => unknown };

/** The options of `andMap()`. */
export interface MapOptions<Data, Input, Resume, Suspend, Fields, Out extends MaybeSchema> extends StepOptions {
  /** The fields of the next `data`, and where each of them comes from. */
  map: Fields & Record<string, MapSource<Data, Input, Resume, Suspend>>;
  /** The schema of the result. */
  outputSchema?: Out;
}
/** The type of a mapped object. Only values and functions have a known type. */
export type Mapped<Fields> = {
  -readonly [K in keyof Fields]: Fields[K] extends { source: "value"; value: infer V }
    ? V
    : Fields[K] extends { source: "fn"; fn: (...args: never[]) => infer V }
      ? Awaited<V>
      : unknown;
};

/** Makes an object from known values: constants, `data`, the input, step outputs, the context. */
export function andMap<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  Fields extends Record<string, MapSource<Data, Input, Resume, Suspend>> = {},
  Out extends MaybeSchema = undefined,
>(
  options: MapOptions<Data, Input, Resume, Suspend, Fields, Out>,
): TypedStep<Data, Input, Resume, Suspend, OwnType<OutputOf<Out, Mapped<Fields>>>> {
  const { id } = options;
  if (Array.isArray(options.map))
    throw new TypeError(`andMap ${id}: map: expected an object of fields, found an array`);
  const fields = Object.entries((options.map ?? {}) as Record<string, AnySource>);
  for (const [name, field] of fields) checkField(field, `andMap ${id}: map.${name}`);
  return createStep({
    type: "andMap",
    shape: "leaf",
    options,
    needs: { map: "object" },
    codes: {
      "": {
        ...options,
        async execute(context) {
          const values = await Promise.all(fields.map(async ([name, field]) => [name, await find(field, context)]));
          return Object.fromEntries(values);
        },
      },
    },
    run: (runner, data) => runner.entry(id, { data }),
  });
}

type AnySource = MapSource<unknown, unknown, unknown, never>;

/** The required option of each source. */
const sources: { readonly [S in AnySource["source"]]: readonly [option: string, type: string] | undefined } = {
  value: undefined,
  data: undefined,
  input: undefined,
  step: ["stepId", "string"],
  context: ["key", "string"],
  fn: ["fn", "function"],
};

function checkField(field: unknown, what: string): void {
  const { source, path, ...options } = Object(field) as Record<string, unknown>;
  if (typeof source !== "string" || !Object.hasOwn(sources, source))
    throw new TypeError(`${what}.source: expected ${Object.keys(sources).join(", ")}, found ${quote(source)}`);
  const [option, type] = sources[source as keyof typeof sources] ?? [];
  if (option !== undefined && typeof options[option] !== type)
    throw new TypeError(`${what}.${option}: expected a ${type}`);
  if (path !== undefined && typeof path !== "string") throw new TypeError(`${what}.path: expected a string`);
}

/** The fields of a step that read the outputs of other steps. */
export function stepSourcesOf(step: Step): { readonly field: string; readonly stepId: string }[] {
  if (step.type !== "andMap") return [];
  const { map } = step as Step & { readonly map: Record<string, AnySource> }; // as `andMap` has checked it
  return Object.entries(map).flatMap(([field, one]) => (one.source === "step" ? [{ field, stepId: one.stepId }] : []));
}

function find(field: AnySource, context: StepContext): unknown {
  switch (field.source) {
    case "value":
      return field.value;
    case "data":
      return follow(context.data, field.path);
    case "input":
      return follow(context.input, field.path);
    case "step":
      return follow(context.getStepData(field.stepId), field.path);
    case "context":
      return follow(context.context.get(field.key), field.path);
    case "fn":
      return field.fn(context as never); // its type was checked where the step was defined
  }
}

/** Follows a path through own properties. */
function follow(value: unknown, path = ""): unknown {
  const keys = path === "" ? [] : path.split(".");
  const found = keys.reduce<unknown>(
    (object, key) =>
      typeof object === "object" && object !== null && Object.hasOwn(object, key)
        ? (object as Record<string, unknown>)[key]
        : undefined,
    value,
  );
  return found ?? null;
}
