import { dismiss } from "../../waiting.ts";

/** Says that an entry no longer waits while its form is being filled in. */
export function Gone({ entryKey }: { entryKey: string }) {
  return (
    <p class="problem" role="alert">
      This was answered elsewhere, or has ended in the meantime.{" "}
      <button type="button" class="small" onClick={() => dismiss(entryKey)}>
        Remove
      </button>
    </p>
  );
}
