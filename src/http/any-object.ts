import * as v from "valibot";
import { isObject } from "../core/json.ts";

type AnyRecord = v.RecordSchema<v.StringSchema<undefined>, v.UnknownSchema, undefined>;
const record: AnyRecord = v.record(v.string(), v.unknown());

/**
 * Any JSON object of a body. Unlike `record`, it does not copy the object: 2 MB can have 150,000 keys, and each copy of
 * such an object takes longer than to parse it. Removes the keys that `record` leaves out.
 */
export const AnyObject: AnyRecord = {
  ...record,
  "~run"(dataset, config) {
    const { value } = dataset;
    if (!isObject(value)) return record["~run"](dataset, config);
    for (const key of unsafeKeys) delete value[key];
    return { value, typed: true };
  },
};

const unsafeKeys = ["__proto__", "prototype", "constructor"];
