import { useState } from "preact/hooks";
import { Text } from "../parts/text.tsx";
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
      {reason !== undefined && (
        <p class="problem" role="alert">
          <Text value={reason} />
        </p>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void useTokenOf(token.trim());
        }}
      >
        <div class="field">
          <label for="token">Token</label>
          <input
            id="token"
            type="password"
            autocomplete="off"
            required
            value={token}
            onInput={({ currentTarget }) => setToken(currentTarget.value)}
          />
        </div>
        <button type="submit" class="first" disabled={token.trim() === ""}>
          Sign in
        </button>
      </form>
      <p class="hint">The token stays in this tab, and is sent only to this server.</p>
    </main>
  );
}
