import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask } from "./server/api.ts";
import { toVisible } from "./parts/text.tsx";
import { signInState } from "./session.ts";

interface Problem {
  readonly message: string;
  readonly hint?: string;
  readonly frame?: string;
  readonly since: string;
}
const problem = signal<Problem | null>(null);
const interval = 2_000;

/** The error of the last save, read every two seconds while the page is visible. Only a session by link may read it. */
export function ProblemBanner() {
  const state = signInState.value;
  const isRead = state.type === "open" && state.session.isSignedInByLink;
  useEffect(() => {
    if (!isRead) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const controller = new AbortController();
    const read = async (): Promise<void> => {
      if (!document.hidden) {
        const options = { signal: controller.signal };
        const found = await ask<{ problem: Problem | null }>("/console/api/problem", options).catch(() => undefined);
        if (found) problem.value = found.problem;
      }
      if (!controller.signal.aborted) timer = setTimeout(() => void read(), interval);
    };
    void read();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [isRead]);
  const found = problem.value;
  if (!found) return null;
  return (
    <section class="problem save" role="alert" aria-labelledby="save-problem">
      <h2 id="save-problem">The last change could not be loaded</h2>
      <pre>{toVisible(found.message)}</pre>
      {found.hint && <p>{toVisible(found.hint)}</p>}
      {found.frame && <pre class="frame">{toVisible(found.frame)}</pre>}
      <p class="hint">The last good version is still being served.</p>
    </section>
  );
}
