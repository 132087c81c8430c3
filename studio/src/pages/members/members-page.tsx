/** Members: the tokens of people and programs, with their roles. */
import { Alert, Button, NumberInput, Select, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ColumnDef } from "@tanstack/react-table";
import { useState } from "react";

import { api, data, type Schemas } from "@/api/client";
import { members, queryClient } from "@/api/queries";
import { session, useMay } from "@/api/session";
import { Code } from "@/components/code";
import { Confirm } from "@/components/confirm";
import { FormModal } from "@/components/form-modal";
import { actionsColumn } from "@/components/data-table";
import { ListPage } from "@/components/list-page";
import { Dot } from "@/components/state-badge";
import { Empty } from "@/components/states";
import { Ago } from "@/components/time";
import { useWorkspace } from "@/lib/workspace";

type Member = Schemas["TokenView"];
type Role = Member["role"];

const ROLES: { value: Role; label: string; about: string }[] = [
  { value: "reader", label: "Reader", about: "Reads runs, targets, models and environments." },
  { value: "contributor", label: "Contributor", about: "Also submits runs, uses secrets, and changes and cancels own runs." },
  { value: "owner", label: "Owner", about: "All of that for every run; targets, secrets, the audit log and tokens for others." },
];
const renew = (workspace: string) => queryClient.invalidateQueries({ queryKey: ["members", workspace] });

export function MembersPage() {
  const { workspace } = useWorkspace();
  const may = useMay();
  const { data: found, error, refetch } = useQuery(members(workspace));
  const { data: me } = useQuery(session());
  const [isCreating, setCreating] = useState(false);
  const [revoked, setRevoked] = useState<Member | null>(null);
  const mayWrite = may("tokens.write");
  const columns: ColumnDef<Member>[] = [
    {
      header: "Name",
      accessorKey: "name",
      cell: ({ row }) => (
        <Text size="sm" fw={500}>
          {row.original.name}
          {row.original.name === me?.name && (
            <Text span c="dimmed">
              {" "}
              (you)
            </Text>
          )}
        </Text>
      ),
    },
    { header: "Role", accessorKey: "role" },
    { header: "Last used", accessorKey: "last_used_at", cell: ({ row }) => <Ago time={row.original.last_used_at} /> },
    { header: "Since", accessorKey: "created_at", cell: ({ row }) => <Ago time={row.original.created_at} /> },
    { header: "Valid until", accessorKey: "expires_at", cell: ({ row }) => <Validity until={row.original.expires_at} /> },
  ];
  if (mayWrite) {
    columns.push(
      actionsColumn((row) => (
        <Button variant="subtle" color="red" onClick={() => setRevoked(row)} aria-label={`Revoke the token of ${row.name}`}>
          Revoke
        </Button>
      )),
    );
  }
  return (
    <ListPage
      title="Members"
      description="Each member signs in with a token of their own, which has a role in this workspace."
      actions={mayWrite && <Button onClick={() => setCreating(true)}>Add a member</Button>}
      rows={found?.tokens}
      error={error}
      retry={() => void refetch()}
      columns={columns}
      empty={
        <Empty title="Only you">
          Others can work here too, if the server is shared: add a member, and give them the token.
        </Empty>
      }
    >
      {isCreating && <NewMember workspace={workspace} onClose={() => setCreating(false)} />}
      {revoked && (
        <Confirm
          opened
          onClose={() => setRevoked(null)}
          title={`Revoke the token of ${revoked.name}?`}
          action="Revoke"
          run={async () => {
            await api.DELETE("/api/v1/workspaces/{workspace}/tokens/{name}", {
              params: { path: { workspace, name: revoked.name } },
            });
            await renew(workspace);
          }}
        >
          Requests with it are refused from now on, and its browser sessions end. Runs that {revoked.name} submitted go on.
        </Confirm>
      )}
    </ListPage>
  );
}

function Validity({ until }: { until: string | null }) {
  if (!until) return <>until revoked</>;
  if (Date.parse(until) < Date.now()) return <Dot tone="bad" label="Expired" title={new Date(until).toLocaleString()} />;
  return <time dateTime={until}>{new Date(until).toLocaleDateString()}</time>;
}

function NewMember({ workspace, onClose }: { workspace: string; onClose: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("contributor");
  const [days, setDays] = useState<number | "">("");
  const [key] = useState(() => crypto.getRandomValues(new Uint32Array(4)).join("-"));
  const [token, setToken] = useState("");
  if (token) {
    return (
      <FormModal opened onClose={onClose} title={`The token of ${name}`} action="Done" isReady submit={async () => undefined}>
        <Alert color="yellow" title="Copy it now: it is not shown again." />
        <Code text={token} label="Copy the token" />
        <Stack gap={4}>
          <Text size="sm">They sign in here with it, and by the command line with:</Text>
          <Code text={`export WINDLASS_URL=${location.origin}\nexport WINDLASS_TOKEN=${token}`} label="Copy the commands" />
        </Stack>
      </FormModal>
    );
  }
  return (
    <FormModal
      opened
      onClose={onClose}
      title="Add a member"
      action="Create the token"
      isReady={name.trim() !== ""}
      submit={async () => {
        const given = await data(
          api.POST("/api/v1/workspaces/{workspace}/tokens", {
            params: { path: { workspace }, header: { "Idempotency-Key": key } as never },
            body: { name: name.trim(), role, days: days === "" ? null : days },
          }),
        );
        await renew(workspace);
        setToken(given.token);
        return "stay";
      }}
    >
      <TextInput
        label="Name"
        description="As it stands at their runs and in the audit log."
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        required
        data-autofocus
      />
      <Select
        label="Role"
        description={ROLES.find(({ value }) => value === role)?.about}
        data={ROLES.map(({ value, label }) => ({ value, label }))}
        value={role}
        onChange={(each) => setRole(each as Role)}
      />
      <NumberInput
        label="Valid for"
        suffix=" days"
        placeholder="until it is revoked"
        min={1}
        max={36500}
        value={days}
        onChange={(each) => setDays(each === "" ? "" : Number(each))}
      />
    </FormModal>
  );
}
