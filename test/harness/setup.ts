import fc from "fast-check";
import { keepRecords } from "./logged.ts";
import { seed } from "./seed.ts";

keepRecords();
fc.configureGlobal({ seed });
