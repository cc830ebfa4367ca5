import { Button } from "./button.tsx";
import { notify } from "./notices.tsx";

/** A button that copies a text. */
export function Copy({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      notify("done", "Copied");
    } catch {
      notify("failed", "The browser does not allow copying here");
    }
  };
  return (
    <Button class="small" onClick={() => void copy()}>
      {label}
    </Button>
  );
}
