import { Problem } from "../parts/states.tsx";
import { useState } from "preact/hooks";
import { TextField } from "../parts/field.tsx";
import { useTokenOf } from "../session.ts";

/** Asks for a token. In `dev`, the link in the terminal needs none. */
export function SignIn({ reason }: { reason: string | undefined }) {
  const [token, setToken] = useState("");
  return (
    <main class="centred">
      <h1>agentserve</h1>
      <p>
        This server asks for a token. Use one of its users, or open the link that <code>agentserve dev</code> has
        printed.
      </p>
      {reason !== undefined && <Problem message={reason} />}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void useTokenOf(token.trim());
        }}
      >
        <TextField label="Token" type="password" autocomplete="off" required value={token} onText={setToken} />
        <button type="submit" class="first" disabled={token.trim() === ""}>
          Sign in
        </button>
      </form>
      <p class="hint">The token stays in this tab, and is sent only to this server.</p>
    </main>
  );
}
