/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FARLANE_DOCTOR_PEER_H
#define FARLANE_DOCTOR_PEER_H

#define PEER_CHECKS

#endif
