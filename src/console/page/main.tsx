import { render } from "preact";
import { Console } from "./console.tsx";
import { startPlace } from "./place.ts";
import { signIn } from "./session.ts";

// The token of the link is read, and removed from the address, before anything else reads the fragment.
void signIn();
startPlace();
render(<Console />, document.getElementById("console")!); // in the page of `src/console/page.ts`
