import type { ComponentChildren } from "preact";
import type { Loaded } from "../server/load.ts";
import { Text } from "./text.tsx";

/** The content of a value that is read: a hint while it is read, the error if that fails, else `children` of the value. */
export function Show<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  const { value, error, reload } = of;
  return (
    <>
      {error && (
        <p class="problem" role="alert">
          <Text value={error.message} />{" "}
          <button type="button" class="small" onClick={reload}>
            Try again
          </button>
        </p>
      )}
      {value === undefined ? !error && <p class="hint">Loading …</p> : children(value)}
    </>
  );
}

/** A sentence in place of a list without entries. */
export const Empty = ({ children }: { children: ComponentChildren }) => <p class="hint empty">{children}</p>;
