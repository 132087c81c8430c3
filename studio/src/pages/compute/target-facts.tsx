/** What is known of a target: its facts and settings, what it has, what is missing there. */
import { Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";

import type { Target } from "@/api/queries";
import { Copy } from "@/components/code";
import { Facts, Section } from "@/components/page";
import { Dot } from "@/components/state-badge";
import { readFields, type Schema } from "@/components/schema-form";
import { Ago } from "@/components/time";
import { bytes, money } from "@/lib/format";
import classes from "./compute.module.css";
import type { Kind } from "./queries";

export function TargetFacts({ target, kind }: { target: Target; kind?: Kind }) {
  const facts: [string, ReactNode][] = [
    ["Kind", kind?.title ?? `${target.kind} (not installed)`],
    ["Where", target.location || null],
    [target.is_attached ? "Attached by" : "Owner", target.attached_by || null],
    ["Since", <Ago key="since" time={target.created_at} />],
    ["Runs at once", target.slots ?? "as there is room"],
  ];
  if (kind?.is_managed) facts.push(["Provisioning", target.provisioning_state]);
  if (target.provisioning_message && target.provisioning_state === "Succeeded") facts.push(["Note", target.provisioning_message]);
  if (target.price_per_hour !== null) facts.push(["Price of a node", `about ${money(target.price_per_hour)} an hour`]);
  if (target.depends_on.length) facts.push(["Needs", target.depends_on.join(", ")]);
  if (target.pin) {
    facts.push([
      "Identity",
      <span key="pin">
        <span className={classes.fingerprint}>{target.pin_shown_as ?? target.pin}</span>{" "}
        <Text span size="xs" c={target.pin_confirmed ? "dimmed" : "var(--studio-waiting)"}>
          {target.pin_confirmed ? "compared by a person" : "not compared yet"}
        </Text>
      </span>,
    ]);
  }
  return (
    <Section title="About">
      <Facts facts={[...facts, ...settingsOf(target, kind)]} />
    </Section>
  );
}

/** The settings with a value, by the labels of the form. */
function settingsOf(target: Target, kind?: Kind): [string, ReactNode][] {
  const fields = kind ? readFields(kind.config_schema as Schema) : [];
  return fields.flatMap((field): [string, ReactNode][] => {
    const value = target.config[field.name];
    const isPlain = value === field.default && field.group !== "";
    if (isPlain || value === null || value === undefined || value === "" || (typeof value === "object" && !Object.keys(value).length)) return [];
    const label = field.choices.find(({ raw }) => raw === value)?.label;
    return [[field.label, label ?? shown(value)]];
  });
}

export function shown(value: unknown): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(shown).join(", ");
  if (value && typeof value === "object") return Object.entries(value).map(([key, each]) => `${key} ${shown(each)}`).join(", ");
  return String(value);
}

type Problem = { level?: string; about?: string; message?: string; fix?: string };

const NOT_SHOWN = ["problems", "boot_id", "home", "arrival"];

/** Whether it belongs to a setting that is off, such as Docker. */
const isOff = (target: Target, about: string): boolean => target.config[about] === false;

/** What is missing on the machine, each with the command that fixes it. */
export function TargetProblems({ target }: { target: Target }) {
  const problems = ((target.inventory?.problems ?? []) as Problem[]).filter(({ about }) => !isOff(target, about ?? ""));
  if (!problems.length) return null;
  return (
    <Section title="To be fixed there">
      <ul className={classes.rows}>
        {problems.map((problem, index) => (
          <li key={index}>
            <Stack gap={4}>
              <Dot tone={problem.level === "warning" ? "waiting" : "bad"} label={problem.level === "warning" ? "Warning" : "Missing"} />
              <Text size="sm">{String(problem.message ?? "")}</Text>
              {problem.fix && (
                <div className={classes.line}>
                  <code className={classes.fingerprint}>{String(problem.fix)}</code>
                  <Copy text={String(problem.fix)} label="Copy the fix" />
                </div>
              )}
            </Stack>
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** What the target reported of itself at its last check. */
export function TargetInventory({ target }: { target: Target }) {
  const entries = Object.entries(target.inventory ?? {}).filter(
    ([name, value]) => !NOT_SHOWN.includes(name) && !isOff(target, name) && shown(value ?? "") !== "",
  );
  if (!entries.length) return null;
  return (
    <Section title="What it has">
      <Facts facts={entries.map(([name, value]) => [labelOf(name), amount(name, value)])} />
    </Section>
  );
}

const WORDS: Record<string, string> = { os: "operating system", gpus: "GPUs" };
const labelOf = (name: string): string => {
  const words = name.replace(/_mb$/, "").replaceAll("_", " ").replace(/^(os|gpus)$/, (word) => WORDS[word]!);
  return words.charAt(0).toUpperCase() + words.slice(1);
};
const amount = (name: string, value: unknown): string =>
  name.endsWith("_mb") && typeof value === "number" ? bytes(value * 1e6) : shown((value as { version?: string })?.version ?? value);
