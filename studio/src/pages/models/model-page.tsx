/** A model: its versions, and of one of them the files, where it came from, and its labels. */
import { Anchor, Button, Select, SimpleGrid, Stack, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { IconDownload } from "@tabler/icons-react";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { api, signedLink } from "@/api/client";
import { queryClient } from "@/api/queries";
import { useMay } from "@/api/session";
import { Code } from "@/components/code";
import { Confirm } from "@/components/confirm";
import { actionsColumn, DataTable } from "@/components/data-table";
import { FormModal } from "@/components/form-modal";
import { Facts, Page, Section } from "@/components/page";
import { Empty, Failure, Loading } from "@/components/states";
import { Ago } from "@/components/time";
import { bytes } from "@/lib/format";
import { useWorkspace } from "@/lib/workspace";
import { sizeOf, Tags } from "./models-page";
import { type Model, models } from "./queries";

const ONE = "/api/v1/workspaces/{workspace}/models/{name}/{version}" as const;

export function ModelPage() {
  const { workspace, home } = useWorkspace();
  const { name } = useParams({ strict: false }) as { name: string };
  const { version } = useSearch({ strict: false }) as { version?: string };
  const { data, error, refetch } = useQuery(models(workspace, name));
  const navigate = useNavigate();
  const may = useMay();
  const [dialog, setDialog] = useState<"edit" | "delete" | null>(null);
  if (error) return <Page title={name}><Failure error={error} retry={() => void refetch()} /></Page>;
  if (!data) return <Page title={name}><Loading rows={8} /></Page>;
  const model = data.models.find((each) => String(each.version) === version) ?? data.models[0];
  if (!model) {
    return (
      <Page title={name}>
        <Empty title={`There is no model ${name}`}>
          <Anchor component={Link} to={`${home}/models`}>
            All models
          </Anchor>
        </Empty>
      </Page>
    );
  }
  const renew = () => queryClient.invalidateQueries({ queryKey: ["models", workspace] });
  return (
    <Page
      title={name}
      description={model.description || undefined}
      actions={
        <>
          <Select
            aria-label="Version"
            size="xs"
            w={140}
            data={data.models.map((each) => ({ value: String(each.version), label: `Version ${each.version}` }))}
            value={String(model.version)}
            onChange={(next) => void navigate({ to: ".", search: { version: next ?? undefined } as never })}
          />
          {may("models.write") && (
            <>
              <Button variant="default" onClick={() => setDialog("edit")}>
                Edit
              </Button>
              <Button variant="default" c="var(--studio-bad)" onClick={() => setDialog("delete")}>
                Delete
              </Button>
            </>
          )}
        </>
      }
    >
      <Stack gap="md">
        <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
          <Section title={`Version ${model.version}`}>
            <Facts
              facts={[
                ["Id", <code key="id">{model.id}</code>],
                ["Run", model.run ? <Anchor key="run" component={Link} to={`${home}/runs/${encodeURIComponent(model.run)}`} size="sm">{model.run}</Anchor> : "–"],
                ["Experiment", model.experiment ?? "–"],
                ["Framework", `${model.framework} ${model.framework_version}`.trim() || "–"],
                ["Size", bytes(sizeOf(model))],
                ["Registered", <span key="at"><Ago time={model.created_at} /> by {model.created_by}</span>],
                ["Tags", Object.keys(model.tags).length ? <Tags key="tags" tags={model.tags} /> : "–"],
                ...Object.entries(model.properties).map(([key, value]): [string, string] => [key, value]),
              ]}
            />
          </Section>
          <Section title="Use it">
            <Stack gap="xs" p="md">
              <Code text={`windlass model download ${model.id}`} />
              <Code text={`from windlass import Model, Workspace\n\nws = Workspace.from_config()\npath = Model(ws, id=${JSON.stringify(model.id)}).download()`} />
            </Stack>
          </Section>
        </SimpleGrid>
        <Section title="Files">
          <Files workspace={workspace} model={model} />
        </Section>
      </Stack>
      {dialog === "edit" && <Edit workspace={workspace} model={model} renew={renew} onClose={() => setDialog(null)} />}
      <Confirm
        opened={dialog === "delete"}
        onClose={() => setDialog(null)}
        title={`Delete ${model.id}?`}
        action="Delete"
        run={async () => {
          await api.DELETE(ONE, { params: { path: { workspace, name, version: model.version } } });
          await renew();
          await navigate(data.models.length > 1 ? { to: ".", search: {} } : { to: `${home}/models` });
        }}
      >
        Its files go unless something else needs them. The number {model.version} is not used again.
      </Confirm>
    </Page>
  );
}

function Files({ workspace, model }: { workspace: string; model: Model }) {
  const [error, setError] = useState<unknown>(null);
  const path = (file: string) =>
    `api/v1/workspaces/${encodeURIComponent(workspace)}/models/${encodeURIComponent(model.name)}/${model.version}/files/` +
    file.split("/").map(encodeURIComponent).join("/");
  async function download(file: string) {
    setError(null);
    try {
      location.assign(await signedLink(path(file)));
    } catch (problem) {
      setError(problem);
    }
  }
  return (
    <>
      {error !== null && <Failure error={error} />}
      <DataTable
        rows={model.files}
        label="Files"
        columns={[
          { header: "Path", accessorKey: "path" },
          { header: "Size", accessorKey: "size", cell: ({ row }) => bytes(row.original.size) },
          { header: "SHA-256", accessorKey: "digest", cell: ({ row }) => <code title={row.original.digest}>{row.original.digest.slice(0, 12)}</code> },
          actionsColumn((file: Model["files"][number]) => (
            <Button
              variant="subtle"
              leftSection={<IconDownload size={14} />}
              onClick={() => void download(file.path)}
              aria-label={`Download ${file.path}`}
            >
              Download
            </Button>
          )),
        ]}
      />
    </>
  );
}

type EditProps = { workspace: string; model: Model; renew: () => Promise<void>; onClose: () => void };

function Edit({ workspace, model, renew, onClose }: EditProps) {
  const [description, setDescription] = useState(model.description);
  const [tags, setTags] = useState(Object.entries(model.tags).map(([key, value]) => `${key}=${value}`).join("\n"));
  return (
    <FormModal
      opened
      onClose={onClose}
      title={`Edit ${model.id}`}
      action="Save"
      isReady
      submit={async () => {
        const wanted = parseTags(tags);
        const removed = Object.keys(model.tags).filter((key) => !(key in wanted));
        await api.PATCH(ONE, {
          params: { path: { workspace, name: model.name, version: model.version } },
          body: { description, properties: null, tags: { ...wanted, ...Object.fromEntries(removed.map((key) => [key, null])) } },
        });
        await renew();
      }}
    >
      <TextInput label="Description" value={description} onChange={(event) => setDescription(event.currentTarget.value)} data-autofocus />
      <Textarea
        label="Tags"
        description="One KEY=VALUE on each line."
        autosize
        minRows={3}
        value={tags}
        onChange={(event) => setTags(event.currentTarget.value)}
      />
    </FormModal>
  );
}

export function parseTags(text: string): Record<string, string> {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf("=");
      return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}
