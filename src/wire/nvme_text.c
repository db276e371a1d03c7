/* SPDX-License-Identifier: Apache-2.0 */
/* What numbers of the protocol mean, in plain words. */
#include "wire/nvme.h"
#include "wire/nvmf.h"

static const char *admin_opcode_text(uint8_t opcode)
{
    switch (opcode) {
    case FL_NVME_ADM_DELETE_SQ:
        return "Delete I/O Submission Queue";
    case FL_NVME_ADM_CREATE_SQ:
        return "Create I/O Submission Queue";
    case FL_NVME_ADM_GET_LOG_PAGE:
        return "Get Log Page";
    case FL_NVME_ADM_DELETE_CQ:
        return "Delete I/O Completion Queue";
    case FL_NVME_ADM_CREATE_CQ:
        return "Create I/O Completion Queue";
    case FL_NVME_ADM_IDENTIFY:
        return "Identify";
    case FL_NVME_ADM_ABORT:
        return "Abort";
    case FL_NVME_ADM_SET_FEATURES:
        return "Set Features";
    case FL_NVME_ADM_GET_FEATURES:
        return "Get Features";
    case FL_NVME_ADM_ASYNC_EVENT:
        return "Asynchronous Event Request";
    case FL_NVME_ADM_NS_MGMT:
        return "Namespace Management";
    case FL_NVME_ADM_FW_COMMIT:
        return "Firmware Commit";
    case FL_NVME_ADM_FW_DOWNLOAD:
        return "Firmware Image Download";
    case FL_NVME_ADM_SELF_TEST:
        return "Device Self-test";
    case FL_NVME_ADM_NS_ATTACH:
        return "Namespace Attachment";
    case FL_NVME_ADM_KEEP_ALIVE:
        return "Keep Alive";
    case FL_NVME_ADM_DIRECTIVE_SEND:
        return "Directive Send";
    case FL_NVME_ADM_DIRECTIVE_RECV:
        return "Directive Receive";
    case FL_NVME_ADM_VIRT_MGMT:
        return "Virtualization Management";
    case FL_NVME_ADM_MI_SEND:
        return "NVMe-MI Send";
    case FL_NVME_ADM_MI_RECV:
        return "NVMe-MI Receive";
    case FL_NVME_ADM_CAPACITY_MGMT:
        return "Capacity Management";
    case FL_NVME_ADM_DISCOVERY_INFO_MGMT:
        return "Discovery Information Management";
    case FL_NVME_ADM_ZONING_RECV:
        return "Fabric Zoning Receive";
    case FL_NVME_ADM_LOCKDOWN:
        return "Lockdown";
    case FL_NVME_ADM_ZONING_LOOKUP:
        return "Fabric Zoning Lookup";
    case FL_NVME_ADM_ZONING_SEND:
        return "Fabric Zoning Send";
    case FL_NVME_ADM_DOORBELL_CONFIG:
        return "Doorbell Buffer Config";
    case FL_NVME_ADM_FABRICS:
        return "Fabrics";
    case FL_NVME_ADM_FORMAT_NVM:
        return "Format NVM";
    case FL_NVME_ADM_SECURITY_SEND:
        return "Security Send";
    case FL_NVME_ADM_SECURITY_RECV:
        return "Security Receive";
    case FL_NVME_ADM_SANITIZE:
        return "Sanitize";
    case FL_NVME_ADM_GET_LBA_STATUS:
        return "Get LBA Status";
    default:
        return "unknown admin command";
    }
}

static const char *io_opcode_text(uint8_t opcode)
{
    switch (opcode) {
    case FL_NVME_CMD_FLUSH:
        return "Flush";
    case FL_NVME_CMD_WRITE:
        return "Write";
    case FL_NVME_CMD_READ:
        return "Read";
    case FL_NVME_CMD_WRITE_UNCOR:
        return "Write Uncorrectable";
    case FL_NVME_CMD_COMPARE:
        return "Compare";
    case FL_NVME_CMD_WRITE_ZEROES:
        return "Write Zeroes";
    case FL_NVME_CMD_DSM:
        return "Dataset Management";
    case FL_NVME_CMD_VERIFY:
        return "Verify";
    case FL_NVME_CMD_RESV_REGISTER:
        return "Reservation Register";
    case FL_NVME_CMD_RESV_REPORT:
        return "Reservation Report";
    case FL_NVME_CMD_RESV_ACQUIRE:
        return "Reservation Acquire";
    case FL_NVME_CMD_IO_MGMT_RECV:
        return "I/O Management Receive";
    case FL_NVME_CMD_RESV_RELEASE:
        return "Reservation Release";
    case FL_NVME_CMD_CANCEL:
        return "Cancel";
    case FL_NVME_CMD_COPY:
        return "Copy";
    case FL_NVME_CMD_IO_MGMT_SEND:
        return "I/O Management Send";
    case FL_NVME_CMD_FABRICS:
        return "Fabrics";
    default:
        return "unknown I/O command";
    }
}

const char *fl_nvme_opcode_text(bool admin, uint8_t opcode)
{
    return admin ? admin_opcode_text(opcode) : io_opcode_text(opcode);
}

const char *fl_nvmf_fctype_text(uint8_t fctype)
{
    switch (fctype) {
    case FL_NVMF_PROPERTY_SET:
        return "Property Set";
    case FL_NVMF_CONNECT:
        return "Connect";
    case FL_NVMF_PROPERTY_GET:
        return "Property Get";
    case FL_NVMF_AUTH_SEND:
        return "Authentication Send";
    case FL_NVMF_AUTH_RECV:
        return "Authentication Receive";
    case FL_NVMF_DISCONNECT:
        return "Disconnect";
    default:
        return "unknown Fabrics command";
    }
}
