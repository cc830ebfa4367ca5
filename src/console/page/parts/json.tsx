import { Button } from "./button.tsx";
import { useState } from "preact/hooks";
import { Copy } from "./copy.tsx";
import { toVisible } from "./text.tsx";

/** The entries that are shown at first, and with each "more". */
const pageSize = 100;
const longText = 400;

/** A JSON value as a collapsible tree, with a button that copies all of it. */
export function Json({ value, label, depth = 1 }: { value: unknown; label: string; depth?: number }) {
  return (
    <div class="json" role="group" aria-label={label}>
      <div class="json-tools">
        <Copy text={() => JSON.stringify(value, null, 2) ?? "undefined"} />
      </div>
      <Node value={value} open={depth} />
    </div>
  );
}

function Node({ name, value, open }: { name?: string; value: unknown; open: number }) {
  const [isOpen, setOpen] = useState(open > 0);
  const [max, setMax] = useState(pageSize);
  const before = name !== undefined && (
    <>
      <span class="json-key">{toVisible(name)}</span>
      {": "}
    </>
  );
  const isLeaf = typeof value !== "object" || value === null;
  const entries = isLeaf ? [] : Object.entries(value);
  const [start, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) {
    return (
      <div class="json-row">
        {before}
        {isLeaf ? <Leaf value={value} /> : start + end}
      </div>
    );
  }
  return (
    <details class="json-row" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        {before}
        {isOpen ? start : `${start} ${entries.length} ${Array.isArray(value) ? "items" : "keys"} ${end}`}
      </summary>
      {isOpen && (
        <div class="json-children">
          {entries.slice(0, max).map(([key, child]) => (
            <Node key={key} name={key} value={child} open={open - 1} />
          ))}
          {entries.length > max && (
            <Button class="small" onClick={() => setMax(max + pageSize)}>
              {entries.length - max} more
            </Button>
          )}
        </div>
      )}
    </details>
  );
}

function Leaf({ value }: { value: unknown }) {
  const [isWhole, setWhole] = useState(false);
  const text = typeof value === "string" ? toVisible(JSON.stringify(value)) : String(value);
  const type = value === null ? "null" : typeof value;
  if (text.length <= longText || isWhole) return <span data-type={type}>{text}</span>;
  return (
    <span data-type={type}>
      {text.slice(0, longText)}…{" "}
      <Button class="small" onClick={() => setWhole(true)}>
        {text.length - longText} more characters
      </Button>
    </span>
  );
}
