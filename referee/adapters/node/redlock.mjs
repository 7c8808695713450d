import Redlock, { ExecutionError } from "redlock";
import { serveUsing } from "./using.mjs";

serveUsing("redlock", Redlock, ExecutionError);
