/** Code and environment of a run: all that is needed to do it again. */
import { Anchor, Badge, Group, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { RunDetails } from "@/api/queries";
import { Code, Copy, Equivalent } from "@/components/code";
import { Facts, Section } from "@/components/page";
import { Empty } from "@/components/states";
import { bytes, duration, plural } from "@/lib/format";

import { runSnapshot } from "../queries";
import classes from "../run.module.css";
import { argumentRows, commandLine, submitCommand, submitPython } from "./equivalent";

type Props = { run: RunDetails };
type Spec = NonNullable<RunDetails["spec"]>;

export function CodeTab({ run }: Props) {
  const { spec } = run;
  if (!spec) {
    return (
      <Stack gap="md">
        <Empty title="An interactive run">It is a process of its own, such as a notebook; nothing was submitted.</Empty>
        <SnapshotSection run={run} />
        <Properties run={run} />
      </Stack>
    );
  }
  return (
    <div className={classes.grid}>
      <div className={classes.stack}>
        <Section title="Command">
          <div className={classes.pad}>
            <Code text={commandLine(spec)} label="Copy the command" />
          </div>
          {spec.arguments.length > 0 && <Arguments words={spec.arguments} />}
        </Section>
        <SnapshotSection run={run} />
        <Section title="The same as a command and in Python">
          <div className={classes.pad}>
            <Equivalent command={submitCommand(run, spec)} python={submitPython(run, spec)} />
          </div>
        </Section>
        <Variables spec={spec} />
        <Properties run={run} />
      </div>
      <div className={classes.stack}>
        <EnvironmentSection run={run} spec={spec} />
        <ResourceSection spec={spec} />
      </div>
    </div>
  );
}

function Arguments({ words }: { words: string[] }) {
  return (
    <Table aria-label="Arguments">
      <Table.Thead>
        <Table.Tr>
          <Table.Th w={220}>Argument</Table.Th>
          <Table.Th>Value</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {argumentRows(words).map(({ name, value }, index) => (
          <Table.Tr key={index}>
            <Table.Td className={classes.mono}>{name || <span className={classes.dim}>{index + 1}</span>}</Table.Td>
            <Table.Td className={classes.mono}>{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function SnapshotSection({ run }: Props) {
  const { data } = useQuery(runSnapshot(run, run.snapshot));
  if (!run.snapshot) return null;
  const git = gitOf(run.properties);
  return (
    <Section
      title="Source"
      actions={
        <Anchor component={Link} to="." search={((before: object) => ({ ...before, tab: "files", of: "snapshot" })) as never} size="sm">
          Browse the files
        </Anchor>
      }
    >
      <Facts
        facts={[
          ["Snapshot", <Digest key="digest" text={run.snapshot} />],
          ["Files", data ? `${plural(data.files.length, "file")}, ${bytes(data.files.reduce((sum, { size }) => sum + size, 0))}` : "…"],
          ...git,
        ]}
      />
    </Section>
  );
}

function Digest({ text }: { text: string }) {
  return (
    <Group gap={4} wrap="nowrap">
      <span className={classes.mono}>{text.slice(0, 23)}…</span>
      <Copy text={text} label="Copy the digest" />
    </Group>
  );
}

const GIT: [string, string][] = [
  ["azureml.git.repository_uri", "Repository"],
  ["mlflow.source.git.repoURL", "Repository"],
  ["azureml.git.branch", "Branch"],
  ["mlflow.source.git.branch", "Branch"],
  ["azureml.git.commit", "Commit"],
  ["mlflow.source.git.commit", "Commit"],
  ["azureml.git.dirty", "Changed since"],
];

/** Where the source came from, as properties say it. */
function gitOf(properties: Record<string, string>): [string, ReactNode][] {
  const facts = new Map<string, ReactNode>();
  for (const [key, name] of GIT) {
    const value = properties[key];
    if (!value || facts.has(name)) continue;
    const isLink = name === "Repository" && /^https?:\/\//.test(value);
    facts.set(
      name,
      isLink ? (
        <Anchor key={key} href={value} target="_blank" rel="noopener noreferrer" size="sm">
          {value}
        </Anchor>
      ) : (
        <span key={key} className={name === "Commit" ? classes.mono : undefined}>
          {value}
        </span>
      ),
    );
  }
  return [...facts];
}

function Variables({ spec }: { spec: Spec }) {
  const variables = Object.entries(spec.environment_variables ?? {});
  if (!variables.length && !spec.secrets.length) return null;
  return (
    <Section title="Variables">
      <Table aria-label="Variables">
        <Table.Tbody>
          {variables.map(([name, value]) => (
            <Table.Tr key={name}>
              <Table.Td className={classes.mono} w={240}>
                {name}
              </Table.Td>
              <Table.Td className={classes.mono}>{value}</Table.Td>
            </Table.Tr>
          ))}
          {spec.secrets.map((name) => (
            <Table.Tr key={`secret ${name}`}>
              <Table.Td className={classes.mono}>{name}</Table.Td>
              <Table.Td className={classes.dim}>a secret; its value is not shown</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Section>
  );
}

function Properties({ run }: Props) {
  const properties = Object.entries(run.properties).filter(([key]) => !GIT.some(([known]) => known === key));
  if (!properties.length) return null;
  return (
    <Section title="Properties">
      <Facts facts={properties.map(([key, value]): [string, ReactNode] => [key, <span key={key} className={classes.mono}>{value}</span>])} />
    </Section>
  );
}

function EnvironmentSection({ run, spec: { environment, container } }: Props & { spec: Spec }) {
  const { name, version, interpreter, python_version, pip, conda, channels, image, dockerfile, strict } = environment;
  const variables = Object.entries(environment.variables ?? {});
  const link = name && version && (
    <Anchor component={Link} size="sm" to={`/workspaces/${encodeURIComponent(run.workspace)}/environments/${encodeURIComponent(name)}`}>
      {name}:{version}
    </Anchor>
  );
  const facts: [string, ReactNode][] = [
    ["Name", link || name || null],
    ["Python", interpreter ? `${interpreter} of the target` : (python_version ?? "the target's choice")],
    ["Strict", strict ? "yes" : null],
    ["Image", image && <span className={classes.mono}>{image}</span>],
    ["Channels", channels.length ? channels.join(", ") : null],
    ["Shared memory", container?.shm_size_mb ? `${container.shm_size_mb} MB` : null],
    ["Container", container?.arguments.length ? <span className={classes.mono}>{container.arguments.join(" ")}</span> : null],
    ...variables.map(([key, value]): [string, ReactNode] => [key, <span key={key} className={classes.mono}>{value}</span>]),
  ];
  return (
    <Section title="Environment">
      <Facts facts={facts.filter(([, value]) => value)} />
      {(conda.length > 0 || pip.length > 0) && (
        <Group gap={6} px={14} pb={12}>
          {[...conda, ...pip].map((each) => (
            <Badge key={each} variant="default" tt="none" fw={500}>
              {each}
            </Badge>
          ))}
        </Group>
      )}
      {dockerfile && (
        <div className={classes.pad}>
          <Code text={dockerfile} label="Copy the Dockerfile" />
        </div>
      )}
      {interpreter && !pip.length && !conda.length && (
        <Text size="xs" c="dimmed" px={14} pb={10}>
          Nothing was installed for this run.
        </Text>
      )}
    </Section>
  );
}

function ResourceSection({ spec }: { spec: Spec }) {
  const { nodes, cpus, gpus, memory_mb } = spec.resources;
  const { distribution, retries } = spec;
  const facts: [string, ReactNode][] = [
    ["Nodes", nodes],
    ["CPUs", cpus],
    ["Memory", memory_mb && bytes(memory_mb * 1e6)],
    ["GPUs", gpus],
    ["Time limit", spec.max_run_duration_seconds ? duration(spec.max_run_duration_seconds) : "none"],
    ["Time to end", duration(spec.grace_seconds)],
    ["Priority", spec.priority],
    ["Distribution", distribution && `${distribution.framework}, ${plural(distribution.processes_per_node, "process", "processes")} a node`],
    ["Retries", retries.count ? `${retries.count} after ${retries.on.join(", ")}` : "none"],
    ["After evictions", `queued again at most ${plural(retries.evictions, "time")}`],
    ["Outputs", spec.output_collection ? "collected" : "not collected"],
  ];
  return (
    <Section title="Resources and limits">
      <Facts facts={facts.filter(([, value]) => value !== null && value !== undefined)} />
    </Section>
  );
}
