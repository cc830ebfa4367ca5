import { Button } from "../../parts/button.tsx";
import { useEffect } from "preact/hooks";
import { Dialog } from "../../parts/dialog.tsx";

interface KeyActions {
  /** Selects the run of the row with the focus, or the opposite. */
  toggle(executionId: string): void;
  showKeys(): void;
}

/** Moves the focus between the rows, and selects them, by keyboard. The rows are links: Enter opens them. */
export function useRunKeys({ toggle, showKeys }: KeyActions): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const target = event.target as Element; // the document has the listener
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("dialog")) return;
      if (target.matches("input:not([type=checkbox]), select, textarea")) return;
      const links = [...document.querySelectorAll<HTMLElement>("a[data-run]")];
      const row = document.activeElement?.closest("tr")?.querySelector<HTMLElement>("a[data-run]");
      const at = row ? links.indexOf(row) : -1;
      const isArrow = event.key.startsWith("Arrow");
      if (isArrow && at < 0) return; // arrows scroll the page
      const move = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
      if (move !== undefined) links[Math.min(Math.max(at + move, 0), links.length - 1)]?.focus();
      else if (event.key === "x" && row) toggle(row.dataset["run"]!);
      else if (event.key === "/") document.getElementById("run-id")?.focus();
      else if (event.key === "?") showKeys();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });
}

const keys = [
  ["j, k or the arrow keys", "the next, the previous run"],
  ["Enter", "opens the run"],
  ["x", "selects the run"],
  ["/", "goes to the filter"],
  ["?", "shows these keys"],
] as const;

export function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      {(close) => (
        <>
          <dl class="keys">
            {keys.map(([key, meaning]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{meaning}</dd>
              </div>
            ))}
          </dl>
          <Button class="first" onClick={close}>
            Close
          </Button>
        </>
      )}
    </Dialog>
  );
}
