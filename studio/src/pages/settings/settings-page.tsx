/** Settings: the workspace, the session, and what administrators of the server may change. */
import { Button, Group, NumberInput, Stack, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { queryOptions, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, data } from "@/api/client";
import { queryClient } from "@/api/queries";
import { session, useMay } from "@/api/session";
import { Confirm } from "@/components/confirm";
import { DataTable } from "@/components/data-table";
import { Facts, Page, Section } from "@/components/page";
import { Failure, Loading } from "@/components/states";
import { Ago } from "@/components/time";
import { bytes, plural } from "@/lib/format";
import { useWorkspace } from "@/lib/workspace";
import classes from "./settings.module.css";

const serverSettings = () =>
  queryOptions({ queryKey: ["settings"], queryFn: ({ signal }) => data(api.GET("/api/v1/settings", { signal })) });
const serverStatus = () =>
  queryOptions({ queryKey: ["status"], queryFn: ({ signal }) => data(api.GET("/api/v1/status", { signal })) });
/** The bounds and explanations of the settings stand in the OpenAPI document. */
const document_ = () =>
  queryOptions({
    queryKey: ["openapi"],
    staleTime: Infinity,
    queryFn: ({ signal }) => data(api.GET("/api/v1/openapi.json", { signal })) as Promise<Document>,
  });

type Property = { type?: string; description?: string; minimum?: number; maximum?: number; anyOf?: Property[] };
type Document = { components: { schemas: Record<string, { properties?: Record<string, Property> }> } };
type Values = Record<string, number | null>;

const UNITS: Record<string, string> = { days: " days", bytes: " bytes", mb: " MB" };
const unitOf = (name: string) => UNITS[name.split("_").at(-1) ?? ""];
const titleOf = (name: string) => {
  const words = name.split("_").filter((word, at, all) => !(at === all.length - 1 && word in UNITS));
  const text = words.join(" ");
  return text[0]!.toUpperCase() + text.slice(1);
};

export function SettingsPage() {
  const { workspace } = useWorkspace();
  const may = useMay();
  return (
    <Page title="Settings">
      <Stack gap="md" maw={860}>
        <WorkspaceFacts workspace={workspace} />
        <Who />
        {may("server.read") && <ServerFacts />}
        {may("settings.read") && <ServerSettings mayWrite={may("settings.write")} />}
        {may("server.gc") && <Cleanup />}
        {may("secrets.rotate") && <Keys workspace={workspace} />}
      </Stack>
    </Page>
  );
}

function WorkspaceFacts({ workspace }: { workspace: string }) {
  const { data: found, error, refetch } = useQuery({
    queryKey: ["workspace", workspace],
    queryFn: ({ signal }) => data(api.GET("/api/v1/workspaces/{workspace}", { params: { path: { workspace } }, signal })),
  });
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  return (
    <Section title="Workspace">
      {found ? (
        <Facts
          facts={[
            ["Name", found.name],
            ["Resource group", found.resource_group || "–"],
            ["Subscription", found.subscription_id || "–"],
            ["Location", found.location || "–"],
            ["Created", <Ago key="created" time={found.created_at} />],
            ["Tags", Object.entries(found.tags).map(([key, value]) => `${key}: ${value}`).join(", ") || "–"],
          ]}
        />
      ) : (
        <Loading rows={4} />
      )}
    </Section>
  );
}

function Who() {
  const { data: me } = useQuery(session());
  if (!me) return null;
  return (
    <Section title="Signed in">
      <Facts
        facts={[
          ["As", me.name],
          ["Role", me.role],
          ["For", me.workspace ? `the workspace ${me.workspace}` : "all workspaces"],
          ["Until", me.expires_at ? new Date(me.expires_at).toLocaleString() : "the token is revoked"],
        ]}
      />
    </Section>
  );
}

function ServerFacts() {
  const { data: found, error, refetch } = useQuery(serverStatus());
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  return (
    <Section title="Server">
      {found ? (
        <Facts
          facts={[
            ["Address", found.url],
            ["Version", found.version],
            ["Home", <code key="home">{found.home}</code>],
            ["Database", found.database],
            ["Started", <Ago key="started" time={found.started_at} />],
            ["Runs", `${plural(found.active_runs, "active run")}, ${found.queued_runs} queued`],
          ]}
        />
      ) : (
        <Loading rows={5} />
      )}
    </Section>
  );
}

function ServerSettings({ mayWrite }: { mayWrite: boolean }) {
  const { data: found, error, refetch } = useQuery(serverSettings());
  const { data: described } = useQuery(document_());
  const [edited, setEdited] = useState<Values>({});
  const properties = described?.components.schemas.Tunable?.properties ?? {};
  const save = useMutation({
    mutationFn: () => data(api.PATCH("/api/v1/settings", { body: edited as never })),
    onSuccess: async () => {
      setEdited({});
      await queryClient.invalidateQueries({ queryKey: ["settings"] });
      notifications.show({ message: "The settings are changed.", color: "green" });
    },
  });
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  const values = { ...(found as Values | undefined), ...edited };
  return (
    <Section title="Settings of the server">
      {found ? (
        <form
          className={classes.form}
          onSubmit={(event) => {
            event.preventDefault();
            save.mutate();
          }}
        >
          {Object.keys(found).map((name) => {
            const about = { ...properties[name], ...properties[name]?.anyOf?.find((each) => each.type !== "null") };
            return (
              <NumberInput
                key={name}
                label={titleOf(name)}
                description={properties[name]?.description}
                suffix={unitOf(name)}
                placeholder="for ever, or no limit"
                min={about.minimum}
                max={about.maximum}
                value={values[name] ?? ""}
                disabled={!mayWrite}
                thousandSeparator=" "
                onChange={(value) => setEdited({ ...edited, [name]: value === "" ? null : Number(value) })}
              />
            );
          })}
          {save.error && <Failure error={save.error} />}
          {mayWrite && (
            <Group gap="xs">
              <Button type="submit" loading={save.isPending} disabled={!Object.keys(edited).length}>
                Save
              </Button>
              <Button variant="default" disabled={!Object.keys(edited).length} onClick={() => setEdited({})}>
                Discard
              </Button>
              <Text size="sm" c="dimmed">
                An empty field goes back to its default.
              </Text>
            </Group>
          )}
        </form>
      ) : (
        <Loading rows={8} />
      )}
    </Section>
  );
}

function Cleanup() {
  const [isAsking, setAsking] = useState(false);
  const collect = (apply: boolean) => data(api.POST("/api/v1/gc", { body: { apply } }));
  const look = useMutation({ mutationFn: () => collect(false) });
  const found = look.data;
  return (
    <Section
      title="Clean up"
      actions={
        <Button variant="default" loading={look.isPending} onClick={() => look.mutate()}>
          Look what may be removed
        </Button>
      }
    >
      <Stack gap="sm" p="md">
        <Text size="sm">
          Runs, logs, snapshots and environments that the settings do not keep, and what runs left on machines.
        </Text>
        {look.error && <Failure error={look.error} />}
        {found && (
          <>
            <Text size="sm" role="status">
              {found.items.length
                ? `${plural(found.items.length, "item")}, ${bytes(found.bytes)} together.`
                : "There is nothing to remove."}
              {found.unanswered.length > 0 && ` These machines did not answer: ${found.unanswered.join(", ")}.`}
            </Text>
            {found.items.length > 0 && (
              <>
                <DataTable
                  rows={found.items.slice(0, 1000)}
                  label="What may be removed"
                  columns={[
                    { header: "Kind", accessorKey: "kind" },
                    { header: "What", accessorKey: "id" },
                    { header: "Size", accessorKey: "bytes", cell: ({ row }) => bytes(row.original.bytes) },
                    { header: "Why", accessorKey: "why" },
                  ]}
                />
                <Group>
                  <Button color="red.8" onClick={() => setAsking(true)}>
                    Remove all of it
                  </Button>
                </Group>
              </>
            )}
          </>
        )}
        <Confirm
          opened={isAsking}
          onClose={() => setAsking(false)}
          title="Remove all of it?"
          action="Remove"
          run={async () => {
            await collect(true);
            look.mutate();
          }}
        >
          It cannot be restored.
        </Confirm>
      </Stack>
    </Section>
  );
}

function Keys({ workspace }: { workspace: string }) {
  const [isAsking, setAsking] = useState(false);
  const [result, setResult] = useState("");
  return (
    <Section
      title="Key of the secrets"
      actions={
        <Button variant="default" onClick={() => setAsking(true)}>
          Replace the key
        </Button>
      }
    >
      <Stack gap="sm" p="md">
        <Text size="sm">Secrets are sealed with a key in a file outside of the database. A new key seals all of them again.</Text>
        {result && (
          <Text size="sm" role="status">
            {result}
          </Text>
        )}
        <Confirm
          opened={isAsking}
          onClose={() => setAsking(false)}
          title="Replace the key of the secrets?"
          action="Replace"
          isDangerous={false}
          run={async () => {
            const done = await data(api.POST("/api/v1/workspaces/{workspace}/keys/rotate", { params: { path: { workspace } } }));
            const refused = done.refused.length + done.refused_elsewhere;
            setResult(
              `${plural(done.resealed, "secret")} sealed with the new key ${done.key_id}.` +
                (refused ? ` ${plural(refused, "secret")} could not be opened by any key: ${done.refused.join(", ")}.` : ""),
            );
          }}
        >
          Secrets of all workspaces are sealed again. Back up the key file afterwards.
        </Confirm>
      </Stack>
    </Section>
  );
}
