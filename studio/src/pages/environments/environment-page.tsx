/** A registered environment: its versions, and what one of them has. */
import { Alert, Anchor, Button, JsonInput, Select, SimpleGrid, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { queryClient } from "@/api/queries";
import { useMay } from "@/api/session";
import { Code } from "@/components/code";
import { FormModal } from "@/components/form-modal";
import { Json } from "@/components/json";
import { Facts, Page, Section } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { Ago } from "@/components/time";
import { useWorkspace } from "@/lib/workspace";
import { environmentOfDefinition } from "../submit/draft";
import { type Environment, environmentVersions, register } from "./queries";

export function EnvironmentPage() {
  const { workspace, home } = useWorkspace();
  const { name } = useParams({ strict: false }) as { name: string };
  const { version } = useSearch({ strict: false }) as { version?: string };
  const { data, error, refetch } = useQuery(environmentVersions(workspace, name));
  const navigate = useNavigate();
  const may = useMay();
  const [isEditing, setEditing] = useState(false);
  if (error) return <Page title={name}><Failure error={error} retry={() => void refetch()} /></Page>;
  if (!data) return <Page title={name}><Loading rows={8} /></Page>;
  const shown = data.environments.find((each) => each.version === version) ?? data.environments[0];
  if (!shown) {
    return (
      <Page title={name}>
        <Empty title={`There is no environment ${name}`}>
          <Anchor component={Link} to={`${home}/environments`}>
            All environments
          </Anchor>
        </Empty>
      </Page>
    );
  }
  const { interpreter, python_version, pip = [], pip_options = [], conda = [], channels = [], image, dockerfile, variables = {} } = environmentOfDefinition(shown);
  return (
    <Page
      title={name}
      actions={
        <>
          <Select
            aria-label="Version"
            size="xs"
            w={140}
            data={data.environments.map((each) => ({ value: each.version, label: `Version ${each.version}` }))}
            value={shown.version}
            onChange={(next) => void navigate({ to: ".", search: { version: next ?? undefined } as never })}
          />
          {may("environments.write") && (
            <Button variant="default" onClick={() => setEditing(true)}>
              New version
            </Button>
          )}
        </>
      }
    >
      <Stack gap="md">
        <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
          <Section title={`Version ${shown.version}`}>
            <Facts
              facts={[
                ["Python", interpreter ?? python_version ?? "the nearest that is there"],
                ["Image", image ?? "–"],
                ["Channels", channels.join(", ") || "–"],
                ["Variables", Object.entries(variables).map(([key, value]) => `${key}=${value}`).join(", ") || "–"],
                ["Registered", <span key="at"><Ago time={shown.created_at} /> by {shown.created_by}</span>],
              ]}
            />
          </Section>
          <Section title="Use it">
            <Stack gap="xs" p="md">
              <Code text={`windlass submit --environment ${name}:${shown.version} train.py`} />
              <Code text={`environment = Environment.get(ws, ${JSON.stringify(name)}, version=${JSON.stringify(shown.version)})`} />
            </Stack>
          </Section>
        </SimpleGrid>
        {(pip.length > 0 || conda.length > 0) && (
          <Section title="Packages">
            <Stack gap="xs" p="md">
              <Code text={[...conda.map((line) => `conda  ${line}`), ...[...pip_options, ...pip].map((line) => `pip    ${line}`)].join("\n")} />
            </Stack>
          </Section>
        )}
        {dockerfile && (
          <Section title="Dockerfile">
            <Stack gap="xs" p="md">
              <Code text={dockerfile} />
            </Stack>
          </Section>
        )}
        <Section title="Definition">
          <Stack gap="xs" p="md">
            <Json value={shown.definition} label="Copy the definition" />
          </Stack>
        </Section>
      </Stack>
      {isEditing && <NewVersion workspace={workspace} shown={shown} onClose={() => setEditing(false)} />}
    </Page>
  );
}

function NewVersion({ workspace, shown, onClose }: { workspace: string; shown: Environment; onClose: () => void }) {
  const navigate = useNavigate();
  const [text, setText] = useState(JSON.stringify(shown.definition, null, 2));
  const [note, setNote] = useState("");
  return (
    <FormModal
      opened
      onClose={onClose}
      title={`New version of ${shown.name}`}
      action="Register"
      size="lg"
      isReady={isObject(text)}
      submit={async () => {
        const made = await register(workspace, shown.name, JSON.parse(text) as Record<string, unknown>);
        await queryClient.invalidateQueries({ queryKey: ["environments", workspace] });
        await navigate({ to: ".", search: { version: made.version } as never });
        if (made.version !== shown.version) return "done";
        setNote(`It is equal to version ${made.version}: there is no new one.`);
        return "stay";
      }}
    >
      <JsonInput label="Definition" autosize minRows={12} maxRows={24} value={text} onChange={setText} validationError="This is not JSON." />
      {note && <Alert role="status">{note}</Alert>}
    </FormModal>
  );
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
