/** The state of the form of a new target: values, messages, and the check by the server while one types. */
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { ApiError } from "@/api/client";
import { type Errors, errorsOf, type Field, readFields, type Schema, toRequest, validate, type Values } from "@/components/schema-form";
import { checkDraft, type Kind } from "./queries";

const NAME = /^[A-Za-z][A-Za-z0-9-]{1,31}$/;
const USUAL_NAME = 16;
const NAME_RULE = "A name has 2 to 16 letters, digits and hyphens, and starts with a letter.";
const PAUSE = 350; // ms without a key, before the server is asked

export const longNameNote = (name: string): string =>
  NAME.test(name) && name.length > USUAL_NAME
    ? `${name.length} characters: accepted here, but Azure ML takes at most ${USUAL_NAME}.`
    : "";

export function useDraft(workspace: string, kind: Kind) {
  const fields = useMemo(() => readFields(kind.config_schema as Schema), [kind]);
  const secrets = useMemo(() => readFields(kind.credentials_schema as Schema, "login"), [kind]);
  const all = useMemo(() => [...fields, ...secrets], [fields, secrets]);
  const [name, setName] = useState("");
  const [values, setValues] = useState<Values>({});
  const [files, setFiles] = useState<Record<string, string>>({});
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  const [isTried, setTried] = useState(false);
  const [refused, setRefused] = useState<Errors>({});

  const config = toRequest(fields, values);
  const credentials = toRequest(secrets, values) as Record<string, string>;
  const local = validate(all, values);
  const nameProblem = NAME.test(name) ? "" : name ? NAME_RULE : "A name is required.";

  // Required fields that are still empty are no news from the server.
  const isComplete = !Object.keys(validate(fields, values)).length;
  const question = JSON.stringify({ config, name: nameProblem ? null : name });
  const [asked] = useDebouncedValue(question, PAUSE);
  const isCurrent = isComplete && asked === question;
  const { data: checked } = useQuery({
    queryKey: ["draft", workspace, kind.kind, asked],
    enabled: isCurrent,
    staleTime: 5_000,
    retry: false,
    queryFn: ({ signal }) => {
      const draft = JSON.parse(asked) as { config: Values; name: string | null };
      return checkDraft(workspace, kind.kind, draft.config, draft.name, signal);
    },
  });
  // An answer about what was typed before says nothing of what stands there now.
  const answer = isCurrent ? (checked?.problems ?? []) : [];
  const remote: Errors = Object.fromEntries(answer.map(({ field, message }) => [field, message]));

  const problems: Errors = { ...remote, ...local, ...(nameProblem ? { name: nameProblem } : {}) };
  const shows = (field: string) => isTried || touched.has(field);
  const errors = Object.fromEntries(
    Object.entries({ ...problems, ...refused }).filter(([field]) => shows(field) || field in refused || (field in remote && field !== "name")),
  );

  return {
    fields,
    secrets,
    all,
    name,
    values,
    files,
    config,
    credentials,
    errors,
    problems,
    /** A problem of the whole, such as a quota. */
    whole: remote[""] ?? "",
    setName,
    set(field: string, value: unknown) {
      setValues((before) => ({ ...before, [field]: value }));
      setRefused(({ [field]: _, ...rest }) => rest);
    },
    setFile: (field: string, file: string) => setFiles((before) => ({ ...before, [field]: file })),
    touch: (field: string) => setTouched((before) => new Set(before).add(field)),
    /** Shows all messages. Returns the name of the first field that is not valid. */
    attempt(): string | undefined {
      setTried(true);
      return ["name", ...all.map((field: Field) => field.name)].find((field) => field in problems);
    },
    /** Puts the messages of an error to their fields. */
    refuse(error: Error) {
      if (!(error instanceof ApiError)) return;
      setRefused({ ...errorsOf(error.details, "config"), ...errorsOf(error.details, "credentials") });
    },
  };
}
