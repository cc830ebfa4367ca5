import type { ComponentChild, ComponentChildren } from "preact";
import type { Loaded } from "../server/load.ts";
import { Button } from "./button.tsx";
import { Text } from "./text.tsx";

interface ProblemProps {
  readonly message: string;
  /** The word on the button. @default "Try again" */
  readonly label?: string;
  /** The action of the button. @default there is none */
  onClick?(): void;
}

/** An error, read out by screen readers. */
export function Problem({ message, label = "Try again", onClick }: ProblemProps) {
  return (
    <p class="problem" role="alert">
      <Text value={message} />{" "}
      {onClick && (
        <Button class="small" onClick={onClick}>
          {label}
        </Button>
      )}
    </p>
  );
}

type Reading<T> = Pick<Loaded<T>, "value" | "error" | "reload">;

/** Shows the content once it was read. Shows a hint until then, and an error if a read fails. */
export function Show<T>({ of, children }: { of: Reading<T>; children: (value: T) => ComponentChildren }) {
  const { value, error, reload } = of;
  return (
    <>
      {error && <Problem message={error.message} onClick={reload} />}
      {value === undefined ? !error && <p class="hint">Loading …</p> : children(value)}
    </>
  );
}

interface ListProps<T> {
  readonly of: Reading<readonly T[]>;
  /** The content in place of an empty list. */
  readonly empty: ComponentChildren;
  readonly children: (items: readonly T[]) => ComponentChildren;
}

/** Shows a list once it was read. */
export function ShowList<T>({ of, empty, children }: ListProps<T>) {
  return <Show of={of}>{(items) => (items.length === 0 ? <Empty>{empty}</Empty> : children(items))}</Show>;
}

/** A sentence in place of an empty list. */
export const Empty = ({ children }: { children: ComponentChildren }) => <p class="hint empty">{children}</p>;

interface TableProps {
  readonly class: string;
  readonly heads: readonly ComponentChild[];
  readonly children: ComponentChildren;
}

/** A table whose first row has the heads of its columns. */
export const Table = ({ class: name, heads, children }: TableProps) => (
  <table class={name}>
    <thead>
      <tr>
        {heads.map((head, index) => (
          <th key={index} scope="col">
            {head}
          </th>
        ))}
      </tr>
    </thead>
    <tbody>{children}</tbody>
  </table>
);
