import { Button } from "./button.tsx";
import { signal } from "@preact/signals";
import { toApiError } from "../session.ts";
import { Text } from "./text.tsx";

interface Notice {
  readonly id: number;
  readonly kind: "done" | "failed";
  readonly text: string;
  readonly link: NoticeLink | undefined;
}
/** A place of the page that a notice leads to. */
export interface NoticeLink {
  readonly href: string;
  readonly label: string;
}
const notices = signal<readonly Notice[]>([]);
let last = 0;

/** Tells the user what has happened. Screen readers read it out. */
export function notify(kind: Notice["kind"], text: string, link?: NoticeLink): void {
  const notice = { id: ++last, kind, text, link };
  const others = notices.value.filter((one) => one.text !== text); // a repeated text adds nothing
  notices.value = [...others.slice(-2), notice];
  setTimeout(() => dismiss(notice.id), kind === "failed" || link ? 15_000 : 5_000);
}
const dismiss = (id: number): void => void (notices.value = notices.value.filter((one) => one.id !== id));

/** Runs an action of the user and tells its result. Returns true if it has succeeded. */
export async function act(done: string, action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
    notify("done", done);
    return true;
  } catch (error) {
    notify("failed", toApiError(error).message);
    return false;
  }
}

export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.value.map(({ id, kind, text, link }) => (
        <p key={id} data-kind={kind}>
          <span>
            <Text value={text} /> {link && <a href={link.href}>{link.label}</a>}
          </span>
          <Button class="plain" aria-label="Dismiss" onClick={() => dismiss(id)}>
            ×
          </Button>
        </p>
      ))}
    </div>
  );
}
