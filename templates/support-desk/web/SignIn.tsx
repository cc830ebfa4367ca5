import { useState } from "react";
import { signIn } from "./api.ts";
import type { Session } from "./session.ts";

/** The users of the demo: see demo/users.ts. */
const users = [
  { id: "ada", label: "Ada, a customer" },
  { id: "grace", label: "Grace, a manager" },
];

export function SignIn({ onSignIn }: { onSignIn(session: Session): void }) {
  const [problem, setProblem] = useState("");
  return (
    <main className="sign-in">
      <h1>Support desk</h1>
      <p>Sign in to continue.</p>
      {users.map(({ id, label }) => (
        <button
          key={id}
          className="primary"
          onClick={() => signIn(id).then(onSignIn, (error: Error) => setProblem(error.message))}
        >
          {label}
        </button>
      ))}
      <p role="alert">{problem}</p>
    </main>
  );
}
