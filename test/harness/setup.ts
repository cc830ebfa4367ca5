import { keepRecords } from "./logged.ts";

keepRecords();
