import type { ComponentChildren } from "preact";
import { dismiss } from "../../waiting.ts";

/** Says why an entry does not wait while its form is being filled in. */
export function Gone({ entryKey, children }: { entryKey: string; children: ComponentChildren }) {
  return (
    <p class="problem" role="alert">
      {children}{" "}
      <button type="button" class="small" onClick={() => dismiss(entryKey)}>
        Remove
      </button>
    </p>
  );
}
