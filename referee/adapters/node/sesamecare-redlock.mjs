import { ExecutionError, Redlock } from "@sesamecare-oss/redlock";
import { serveUsing } from "./using.mjs";

serveUsing("@sesamecare-oss/redlock", Redlock, ExecutionError);
