import { ask } from "./server/api.ts";
import { toVisible } from "./parts/text.tsx";
import { useLoaded, usePolling } from "./server/load.ts";
import { signInState } from "./session.ts";

interface Problem {
  readonly message: string;
  readonly hint?: string;
  readonly frame?: string;
  readonly since: string;
}
/** The error of the last save, read every two seconds while the page is visible. Only a session by link may read it. */
export function ProblemBanner() {
  const state = signInState.value;
  const isRead = state.type === "open" && state.session.isSignedInByLink;
  const read = useLoaded(
    async (signal) =>
      isRead ? (await ask<{ problem: Problem | null }>("/console/api/problem", { signal })).problem : null,
    [isRead],
  );
  usePolling(read.reload, 2_000, isRead);
  const found = read.value;
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
