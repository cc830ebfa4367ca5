import { eventOf, hash, itemsOf, keyOf, made, mappedOf } from "../values.ts";
import type { Node, Tree } from "../make.ts";

/**
 * How a run may end: its results as JSON, and the messages of its errors. Only a race, a wait with two ends, or two failures
 * at once leave a choice.
 */
export interface Outcomes {
  readonly values: ReadonlySet<string | undefined>;
  readonly errors: ReadonlySet<string>;
}
const most = 200;

/** The same tree, worked out without an engine. Undefined when there are too many ways. */
export function outcomesOf(nodes: Tree, input: string): Outcomes | undefined {
  try {
    return ofSequence(nodes, "", input, input);
  } catch (error) {
    if (error === tooMany) return undefined;
    throw error;
  }
}
const tooMany = new Error("too many outcomes");

const value = (...texts: (string | undefined)[]): Outcomes => ({ values: new Set(texts), errors: new Set() });
const error = (...texts: string[]): Outcomes => ({ values: new Set(), errors: new Set(texts) });

function ofSequence(nodes: Tree, prefix: string, start: string | undefined, input: string | undefined): Outcomes {
  let values: ReadonlySet<string | undefined> = new Set([start]);
  const errors = new Set<string>();
  for (const [index, one] of nodes.entries()) {
    const before = nodes[index - 1]?.id;
    const all = [...values].map((data) => ofNode(one, { prefix, data, input, before }));
    values = union(all.map((each) => each.values));
    for (const each of all) for (const message of each.errors) errors.add(message);
  }
  return { values, errors };
}

interface Place {
  readonly prefix: string;
  readonly data: string | undefined;
  readonly input: string | undefined;
  /** The step whose output is the data. */
  readonly before: string | undefined;
}

function ofNode(one: Node, place: Place): Outcomes {
  const { prefix, data, input, before } = place;
  const path = prefix + one.id;
  switch (one.type) {
    case "andTap":
      return value(data);
    case "andThen":
      if (one.how.startsWith("broken")) return error(`broken ${path}`);
      if (one.how === "mends")
        return { ...value(JSON.stringify(made(path, data, input))), errors: new Set([`broken ${path}`]) };
      if (one.how === "hangs") return error(`Step ${path} timed out after 3 ms`);
      if (one.how === "nothing") return value(undefined);
      if (one.how === "asks in time")
        return value(
          JSON.stringify(made(path, data, input)),
          JSON.stringify({ ...made(path, data, input), late: true }),
        );
      return value(JSON.stringify(made(path, data, input)));
    case "andWhen":
      if (one.holds === "throws") return error(`condition ${path}`);
      return one.holds ? ofNode(one.step, place) : value(data);
    case "andWorkflow": {
      const { values, errors } = ofSequence(one.steps, `${path}/`, data, data);
      if (!one.maps) return { values, errors };
      return { errors, values: new Set([...values].map((of) => JSON.stringify({ mapped: path, of: hash(of) }))) };
    }
    case "andRace": {
      const branches = one.steps.map((step) => ofNode(step, place));
      const canFail = branches.every(({ errors }) => errors.size > 0);
      return {
        values: union(branches.map(({ values }) => values)),
        errors: canFail ? union(branches.map(({ errors }) => errors)) : new Set(),
      };
    }
    case "andAll":
      return ofAll(one.steps.map((step) => ofNode(step, place)));
    case "andBranch": {
      const broken = one.holds.flatMap((holds, index) => (holds === "throws" ? [`condition ${index} of ${path}`] : []));
      if (broken.length > 0) return error(...broken);
      return ofAll(one.steps.map((step, index) => (one.holds[index] ? ofNode(step, place) : value("null"))));
    }
    case "andForEach": {
      const items: unknown = one.items === "data" ? JSON.parse(data ?? "null") : itemsOf(one.items, data);
      if (!Array.isArray(items)) return error(`andForEach ${one.id}: expected an array`);
      const ends = items.map((item, index) => {
        const text = JSON.stringify(item);
        const start = one.maps ? JSON.stringify(mappedOf(text, index, data)) : text;
        return ofSequence(one.steps, `${path}/${index}/`, start, input);
      });
      return ofAll(one.onError === "collect" ? ends.map(toCollected) : ends);
    }
    case "andDoWhile":
    case "andDoUntil": {
      let values: ReadonlySet<string | undefined> = new Set([data]);
      const errors = new Set<string>();
      for (let index = 0; index < one.times; index++) {
        const all = [...values].map((start) => ofSequence(one.steps, `${path}/${index}/`, start, input));
        values = union(all.map((each) => each.values));
        for (const each of all) for (const message of each.errors) errors.add(message);
      }
      if (!one.overflows) return { values, errors };
      if (values.size > 0) errors.add(`Loop ${one.id} ended after ${one.times} iterations`);
      return { values: new Set(), errors };
    }
    case "andMap":
      return value(JSON.stringify(toMapped(data, input, before)));
    case "andSleep":
    case "andSleepUntil":
      return value(data);
    case "andWaitFor": {
      const taken = JSON.stringify(eventOf(keyOf(one, path)));
      return one.skippable || one.timeout !== undefined ? value(taken, "null") : value(taken);
    }
  }
}

/** Every branch succeeds, or one of them fails. */
function ofAll(branches: readonly Outcomes[]): Outcomes {
  let lists: string[][] = [[]];
  for (const { values } of branches) {
    lists = lists.flatMap((list) => [...values].map((text) => [...list, text ?? "null"]));
    if (lists.length > most) throw tooMany;
  }
  return {
    values: new Set(lists.map((list) => `[${list.join()}]`)),
    errors: union(branches.map(({ errors }) => errors)),
  };
}

const toCollected = ({ values, errors }: Outcomes): Outcomes =>
  value(
    ...[...values].map((text) => `{"status":"success","value":${text ?? "null"}}`),
    ...[...errors].map((message) => JSON.stringify({ status: "error", error: message })),
  );

function toMapped(data: string | undefined, input: string | undefined, before: string | undefined): object {
  const parsed: any = JSON.parse(data ?? "null");
  const given: any = JSON.parse(input ?? "null");
  const own = (object: any, key: string): unknown =>
    typeof object === "object" && object !== null && Object.hasOwn(object, key) ? object[key] : null;
  return {
    value: { is: 7 },
    question: own(given, "question"),
    first: own(parsed, "0"),
    none: null,
    ...(before !== undefined && { before: parsed }),
    context: null,
    fn: hash(data),
  };
}

function union<T>(sets: readonly ReadonlySet<T>[]): Set<T> {
  const all = new Set(sets.flatMap((set) => [...set]));
  if (all.size > most) throw tooMany;
  return all;
}
